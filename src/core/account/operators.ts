/**
 * The operator's people: named tokens with a role. `ADMIN_TOKEN` is the first owner. A row of `/admin` names the roles
 * that may call it; a row that names none is the owners' alone.
 *
 * Tokens: `tg-op-` + 32 base62 (random) + 6 base62 (tag, as of keys: see `api-key.ts`). Only a digest is stored.
 */
import { randomBase62 } from "../formats/base62.ts";

/** The highest first. */
export const OPERATOR_ROLES = ["owner", "finance", "support", "read"] as const;
export type OperatorRole = (typeof OPERATOR_ROLES)[number];

/** Who calls `/admin`. */
export interface Operator {
  /** `ADMIN_TOKEN` for the Worker's secret. */
  readonly id: string;
  readonly name: string;
  readonly role: OperatorRole;
}

/** The holder of the Worker's secret `ADMIN_TOKEN`. */
export const FIRST_OWNER: Operator = { id: "ADMIN_TOKEN", name: "ADMIN_TOKEN", role: "owner" };

/** The roles besides `owner` that may make a call. `all`: with any body; else these fields of the body alone. */
export type Allowed = { readonly [R in Exclude<OperatorRole, "owner">]?: "all" | readonly string[] };

/** What all of the operator's people may read. */
export const READERS = { finance: "all", support: "all", read: "all" } as const satisfies Allowed;

/** Whether the role may make the call at all. */
export const mayCall = (role: OperatorRole, allowed: Allowed = {}): boolean =>
  role === "owner" || allowed[role] !== undefined;

/** The first field of the body that the role may not send; undefined if it may send all of them. */
export function fieldRefused(role: OperatorRole, allowed: Allowed | undefined, fields: readonly string[]) {
  if (role === "owner") return undefined;
  const may = allowed?.[role] ?? [];
  return may === "all" ? undefined : fields.find((field) => !may.includes(field));
}

const PREFIX = "tg-op-";
const RANDOM_LENGTH = 32;
const TAG_LENGTH = 6;
const SHAPE = /^tg-op-[0-9A-Za-z]{38}$/;

/** The signed part of a new token. `random`: at least 64 bytes; bytes that would bias a digit are skipped. */
export function signedOperatorPart(random: Uint8Array): string {
  const fair = randomBase62(random).slice(0, RANDOM_LENGTH);
  if (fair.length < RANDOM_LENGTH) throw new RangeError("signedOperatorPart needs more random bytes");
  return PREFIX + fair;
}

/** Splits a token into what its tag signs and the tag; undefined if the text is not shaped like one. */
export const shapeOperatorToken = (text: string): { readonly signed: string; readonly tag: string } | undefined =>
  SHAPE.test(text) ? { signed: text.slice(0, -TAG_LENGTH), tag: text.slice(-TAG_LENGTH) } : undefined;
