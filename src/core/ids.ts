/**
 * Branded ids: each was validated where it entered, and the types keep one kind from being used as another.
 */
declare const brand: unique symbol;
type Branded<T, Name extends string> = T & { readonly [brand]: Name };

/** An account's public id: chosen by the operator, or derived from its number. */
export type AccountId = Branded<string, "AccountId">;
/**
 * An account's number. It is part of each of its keys and names its object; shown where the contract has an integer id.
 */
export type AccountNumber = Branded<number, "AccountNumber">;
export type TeamId = Branded<string, "TeamId">;
export type KeyId = Branded<string, "KeyId">;
/** Hex HMAC-SHA-256(`KEY_PEPPER`, key). Keys are stored only in this form. */
export type KeyDigest = Branded<string, "KeyDigest">;
/** One client call. Also the id of its hold, ledger entry and usage event, and the `x-request-id` of its answer. */
export type CallId = Branded<string, "CallId">;

/** Brands a value. Call it only where the value was created or validated. */
export const asId = <Id extends Branded<string | number, string>>(value: Id extends number ? number : string): Id =>
  value as unknown as Id;
