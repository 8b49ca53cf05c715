/** Shapes that many schemas have. */
import * as z from "zod/mini";

/** Text of so many characters. */
export const characters = (least: number, most: number) => z.string().check(z.minLength(least), z.maxLength(most));

/** A whole number from `least` to `most`. */
export const whole = (least: number, most: number) => z.int().check(z.minimum(least), z.maximum(most));
