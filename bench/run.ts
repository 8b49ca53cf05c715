/** `npm run bench`. */
