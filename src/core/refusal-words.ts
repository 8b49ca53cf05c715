/** Words for the parts of refusals: bad keys, limits and roles. */
import type { LimitName, NamedLimit, Refusal } from "./refusal.ts";

export const BAD_KEY: Record<(Refusal & { kind: "bad_key" })["why"], string> = {
  malformed: "The API key is malformed. Keys begin with sk-tg-. Copy yours again from where it was issued.",
  unknown: "The API key is not known here. Check the key and the base URL.",
  revoked: "The API key was revoked. Ask for a new one.",
  expired: "The API key has expired. Ask for a new one.",
  blocked: "The API key, its team or its account is blocked. Ask your operator.",
  no_scheme: "The Authorization header has no `Bearer` before the key. Send it as `Authorization: Bearer <key>`.",
  other_scheme:
    "The Authorization header has a scheme other than Bearer. Send the key as `Authorization: Bearer <key>`.",
  empty: "The header for the API key is there, but there is no key in it. Is the variable set that holds your key?",
  odd_characters:
    "The API key has characters in it that no key has, such as a byte order mark, a space or quotes. Copy the key without them.",
  conflicting: "Two different API keys were sent. Send one, in the Authorization header.",
};

export const LIMIT_WORDS: Record<LimitName, string> = {
  rpm_limit: "requests per minute",
  tpm_limit: "tokens per minute",
  rpd_limit: "requests per day",
  max_parallel_requests: "parallel requests",
  free_rpm_limit: "calls per minute that cost nothing",
};

export const NAMED_LIMIT_WORDS: Record<NamedLimit["name"], string> = {
  submissions: "jobs may be submitted",
  launches: "launches of instances and clusters are allowed",
  compute_calls: "compute calls of a key are allowed",
};

export const ROLE_WORDS: Record<(Refusal & { kind: "role_too_low" })["role"], string> = {
  owner: "Only keys of the role owner may do this.",
  admin: "Only keys of the roles owner and admin may do this.",
  member: "This key may not do this.",
};
