/**
 * The result of something that may be refused. Expected refusals are values, never exceptions; they cross the account
 * object's RPC unchanged.
 */
import type { Refusal } from "./refusal.ts";

export interface Refused {
  readonly ok: false;
  readonly refusal: Refusal;
}

/** Either `ok` with the fields of `Given`, or a refusal with the fields of `Facts`. */
export type Outcome<Given extends object, Facts extends object = object> =
  | ({ readonly ok: true } & Readonly<Given>)
  | (Refused & Readonly<Facts>);

export const refused = (refusal: Refusal): Refused => ({ ok: false, refusal });
