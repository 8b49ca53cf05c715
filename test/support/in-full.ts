/** True under `npm run proof`, which runs in full what `npm test` does in short. */
export const IN_FULL = process.env.PROOF === "1";
