/**
 * What comes of something that may be refused: what it gives, or why it is not done. Expected refusals are values, never
 * exceptions, and cross the account object's RPC as they are.
 */
import type { Refusal } from "./refusal.ts";

export interface Refused {
  readonly ok: false;
  readonly refusal: Refusal;
}

/** `ok` with the fields of `Given`, or refused. `Facts`: what a refusal says besides. */
export type Outcome<Given extends object, Facts extends object = object> =
  | ({ readonly ok: true } & Readonly<Given>)
  | (Refused & Readonly<Facts>);

export const refused = (refusal: Refusal): Refused => ({ ok: false, refusal });
