/**
 * Which headers pass a service path, by name. Inwards: what a pod's server may need, but no key, no cookie, nothing
 * that speaks for a proxy. Outwards: what describes the body, but nothing that acts on the client's origin, which is
 * ours.
 */
import { holdsKey } from "./service-path.ts";

type Header = readonly [name: string, value: string];

const BOTH_WAYS = ["content-type", "content-encoding", "content-language", "content-disposition", "content-digest"];

const IN: ReadonlySet<string> = new Set([
  ...BOTH_WAYS,
  "accept",
  "accept-charset",
  "accept-encoding",
  "accept-language",
  "range",
  "if-match",
  "if-modified-since",
  "if-none-match",
  "if-range",
  "if-unmodified-since",
  "last-event-id",
  "user-agent",
  // The others of a handshake belong to one connection: each side makes its own.
  "sec-websocket-protocol",
]);

const OUT: ReadonlySet<string> = new Set([
  ...BOTH_WAYS,
  "accept-ranges",
  "allow",
  "content-range",
  "etag",
  "last-modified",
  "retry-after",
  "sec-websocket-protocol",
]);

/** No underscores: some servers read `x-original_url` as `x-original-url`. */
const EXTENSION = /^x-[a-z0-9-]{1,100}$/;
/** Keys, what proxies say of a request, what makes a server take it for another, and ours. */
const KEPT_BACK =
  /^x-(?:api-key|goog-api-key|amz-security-token|forward(?:ed)?|original|rewrite|real|client|cluster-client|remote|true-client|envoy|host|http|method|url|accel|sendfile|request-id|correlation-id|service|answer|tollgate|ratelimit|should-retry)(?:-|$)/;

const isExtension = (name: string): boolean => EXTENSION.test(name) && !KEPT_BACK.test(name);

/** Together, in characters: more than servers take. */
const MOST_CHARACTERS = 64 * 1024;

export type HeaderFault = "key_in_header" | "headers_too_large";
export type HeadersIn =
  | { readonly ok: true; readonly headers: readonly Header[] }
  | { readonly ok: false; readonly fault: HeaderFault };

/** What a request's headers are upstream. A header that `connection` names is of this connection only. */
export function serviceHeadersIn(sent: readonly Header[]): HeadersIn {
  const lower = sent.map(([name, value]) => [name.toLowerCase(), value] as const);
  const hop = new Set(
    lower.flatMap(([name, value]) =>
      name === "connection" ? value.split(",").map((one) => one.trim().toLowerCase()) : [],
    ),
  );
  const headers = lower.filter(([name]) => (IN.has(name) || isExtension(name)) && !hop.has(name));
  if (headers.some(([, value]) => holdsKey(value))) return { ok: false, fault: "key_in_header" };
  const characters = headers.reduce((sum, [name, value]) => sum + name.length + value.length, 0);
  return characters > MOST_CHARACTERS ? { ok: false, fault: "headers_too_large" } : { ok: true, headers };
}

/** What an answer's headers are to the client. `telltale`: whether a text names the upstream or holds its key. */
export function serviceHeadersOut(got: readonly Header[], telltale: (text: string) => boolean): readonly Header[] {
  return got
    .map(([name, value]) => [name.toLowerCase(), value] as const)
    .filter(([name, value]) => (OUT.has(name) || isExtension(name)) && !telltale(value));
}

/**
 * On every answer: stored nowhere, taken for what it says, and of an origin of its own, since it is a page of a
 * tenant's pod under our address.
 */
export const SERVICE_ANSWER_HEADERS: readonly Header[] = [
  ["cache-control", "no-store"],
  ["x-content-type-options", "nosniff"],
  ["content-security-policy", "sandbox allow-scripts"],
];

/** Says who answered: a pod's 401 is not ours. A pod cannot send it. */
export const ANSWER_FROM = "x-answer-from";
