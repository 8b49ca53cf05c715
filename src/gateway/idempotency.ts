/**
 * Calls with an `Idempotency-Key`: what identifies one, and how it is admitted only once. A repeat of a running call
 * waits for it. If that call fails without having been executed, the repeat is admitted instead.
 */

import { type EarlierCall, type IdempotencyRef, LONGEST_IDEMPOTENCY_KEY } from "../core/account/idempotency.ts";
import { toHex } from "../core/formats/bytes.ts";
import { type Outcome, refused } from "../core/outcome.ts";
import { earlierTokens } from "../core/owned.ts";
import type { Refusal } from "../core/refusal.ts";
import { pinnedTo } from "../core/routing/resolution.ts";
import { admit } from "./admit.ts";
import type { AdmittedCall, ParsedCall, RoutedCall, Step } from "./call.ts";
import { inTurns } from "./http/turns.ts";
import type { Caller, Ports } from "./ports.ts";

const HEADER = "idempotency-key";
/** How long a repeat waits for the call that runs, ms (docs/design.md, section 5). */
export const LONGEST_WAIT_MS = 30_000;
/** Pause between two checks of the running call, ms. Each pause is half as long again as the one before. */
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 2_000;

type Found = Outcome<{ idempotency: IdempotencyRef | undefined }>;

/** The SDKs count their own retries in this header. */
const REPEATS_HEADER = "x-stainless-retry-count";

/**
 * Undefined without a key, and for calls that are safe to repeat. A submission without a key uses its body as the key.
 */
export async function idempotencyOf(parsed: ParsedCall, ports: Ports): Promise<Found> {
  const { endpoint, call, caller } = parsed;
  const { headers } = parsed.request;
  const key = headers.get(HEADER);
  if ((key === null && !endpoint.bodyIsKey) || endpoint.retry === "safe") return { ok: true, idempotency: undefined };
  if (unfit(key)) return refused(UNFIT);
  const identity = await inTurns(call.identity(), ports);
  const pieces = await Promise.all(identity.map((piece) => crypto.subtle.digest("SHA-256", piece)));
  const body = pieces.map((digest) => toHex(new Uint8Array(digest))).join(" ");
  const hmac = async (text: string) => toHex(await ports.secrets.hmac(text));
  const bodyHmac = await hmac(`idempotency-body ${endpoint.id} ${call.instance?.askedPath ?? ""} ${body}`);
  if (key === null) {
    const implied = Number(headers.get(REPEATS_HEADER) ?? 0) >= 1 ? "again" : "first";
    return { ok: true, idempotency: { keyHmac: await hmac(`implied-key ${bodyHmac}`), bodyHmac, implied } };
  }
  return { ok: true, idempotency: { keyHmac: await hmac(`idempotency-key ${caller.account} ${key}`), bodyHmac } };
}

/** Of a compute call: `identity` is what a repeat must have alike. */
export async function computeIdempotency(
  headers: Headers,
  { account }: Pick<Caller, "account">,
  identity: string,
  ports: Ports,
): Promise<Found> {
  const key = headers.get(HEADER);
  if (key === null) return { ok: true, idempotency: undefined };
  if (unfit(key)) return refused(UNFIT);
  const hmac = async (text: string) => toHex(await ports.secrets.hmac(text));
  const keyHmac = await hmac(`idempotency-key ${account} ${key}`);
  return { ok: true, idempotency: { keyHmac, bodyHmac: await hmac(`idempotency-body ${identity}`) } };
}

const unfit = (key: string | null): boolean => key === "" || (key ?? "").length > LONGEST_IDEMPOTENCY_KEY;
const UNFIT: Refusal = {
  kind: "invalid_request",
  message: `The Idempotency-Key must have 1 to ${LONGEST_IDEMPOTENCY_KEY} characters.`,
  param: HEADER,
};

/** `earlier`: the call was carried out before, and its answer is to be replayed. */
export type AdmittedOnce =
  | Extract<Step<AdmittedCall>, { ok: true }>
  | (Extract<Step<AdmittedCall>, { ok: false }> & { readonly earlier?: EarlierCall });

/** Gives up when the client leaves, and after `LONGEST_WAIT_MS` with the refusal that the first call still runs. */
export async function admitOnce(routed: RoutedCall, ports: Ports): Promise<AdmittedOnce> {
  const client = routed.request.signal;
  const sinceMs = ports.now();
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 1.5, LONGEST_PAUSE_MS)) {
    const admission = await admit(routed, ports);
    if (admission.ok) return { ok: true, call: admittedBy(admission, routed) };
    if (admission.earlier?.state !== "running" || client.aborted) return admission;
    if (ports.now() - sinceMs >= LONGEST_WAIT_MS) return admission;
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
}

type Granted = Awaited<ReturnType<typeof admit>> & { ok: true };

/** A call that continues a conversation goes only to the target that has the conversation. */
function admittedBy({ hold, rates, owned, leased }: Granted, routed: RoutedCall): AdmittedCall {
  const targets = owned[0] ? pinnedTo(owned[0]) : routed.route.targets;
  return { ...routed, route: { ...routed.route, targets }, hold, rates, leased, earlierTokens: earlierTokens(owned) };
}
