/**
 * Branded ids: text that was checked once where it entered, so that one kind is never taken for another.
 */
declare const brand: unique symbol;
type Branded<T, Name extends string> = T & { readonly [brand]: Name };

/** An account's public id, chosen by the operator or made from its number. */
export type AccountId = Branded<string, "AccountId">;
/** An account's number: stands in each of its keys and names its object. Shown where the contract has an integer id. */
export type AccountNumber = Branded<number, "AccountNumber">;
export type TeamId = Branded<string, "TeamId">;
export type KeyId = Branded<string, "KeyId">;
/** Hex of HMAC-SHA-256(`KEY_PEPPER`, key): the only form in which a key is stored. */
export type KeyDigest = Branded<string, "KeyDigest">;
/** One client call; also the id of its hold, its ledger entry and its usage event, and `x-request-id` of its answer. */
export type CallId = Branded<string, "CallId">;

/** Marks a value as the given id. Call it only where the value was made or validated. */
export const asId = <Id extends Branded<string | number, string>>(value: Id extends number ? number : string): Id =>
  value as unknown as Id;
