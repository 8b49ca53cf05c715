/**
 * Sends one control call to the upstream account, with its credential, a limit of 20 s, and a bounded answer. The
 * result says whether the call was executed, certainly not executed, or possibly executed.
 */
import type { Address, ControlAnswer, ControlCall } from "../../core/compute/control.ts";
import { ListReader } from "../../core/compute/long-lists.ts";
import { parseObject } from "../../core/formats/json-fields.ts";
import type { CallId } from "../../core/ids.ts";
import type { UpstreamRow } from "../../core/routing/routes.ts";
import { findUpstream } from "../d1/upstreams.ts";
import { log } from "../log.ts";
import { openPorts } from "../ports.ts";
import { readSecrets } from "../secrets.ts";

/** An upstream that is silent for this long has lost the call, ms. */
const SILENCE_MS = 20_000;
/** What is kept of an answer; of a list, without the texts that nobody reads. */
const MOST_ANSWER_BYTES = 8 * 1024 * 1024;
/** A list as it arrives, with every script that tenants chose. */
const MOST_LIST_BYTES = 256 * 1024 * 1024;
/** The wait before retrying a call that could not be sent, ms. */
const OUT_OF_REACH_MS = 5_000;

export interface Sent {
  readonly answer: ControlAnswer;
  /** The pause that the upstream's 429 or 503 asks for, ms. */
  readonly pauseMs: number | null;
}

type Request = Pick<ControlCall, "method" | "path" | "body"> & {
  readonly terms?: ControlCall["terms"];
  readonly callId: CallId;
  /** Where it goes. `books`: only to what they say now. The routing snapshot works without the books. */
  readonly to: "books" | "snapshot" | Address;
  /** The answer is a list of things: its long texts are left out. */
  readonly isList?: boolean;
};

/** Sends it now. Never rejects. */
export async function callControl(
  env: Env,
  context: Pick<ExecutionContext, "waitUntil">,
  upstream: string,
  request: Request,
  sentAtMs: number,
): Promise<Sent> {
  const patience = new AbortController();
  const timer = setTimeout(() => patience.abort(), SILENCE_MS);
  try {
    return await exchange(env, context, upstream, request, sentAtMs, patience.signal);
  } catch {
    return { answer: { kind: "unknown", sentAtMs }, pauseMs: null };
  } finally {
    // A pending timer would keep the object in memory.
    clearTimeout(timer);
  }
}

const notSent = (why: "not_usable" | "out_of_reach" | "changed"): Sent => ({
  answer: { kind: "not_sent", why, retryAfterMs: OUT_OF_REACH_MS },
  pauseMs: null,
});

async function exchange(
  env: Env,
  context: Pick<ExecutionContext, "waitUntil">,
  upstream: string,
  { callId, method, path, body, to, terms = null, isList = false }: Request,
  sentAtMs: number,
  signal: AbortSignal,
): Promise<Sent> {
  const secrets = await readSecrets(env);
  if (!secrets.ok) return notSent("not_usable");
  const { directory, upstreams } = openPorts(env, context, secrets.secrets);
  const snapshot = await directory.routing();
  // A new upstream may not be in the snapshot yet, and one that was changed is there as it was for a while.
  const cached = to === "snapshot" ? snapshot.upstreams[upstream] : undefined;
  const found = cached ?? (await inBooks(env, upstream));
  const row = found && typeof to === "object" ? { ...found, ...to } : found;
  const routing = { ...snapshot, upstreams: row ? { [upstream]: row } : {} };
  if (!row || !(await opens(secrets.secrets.unseal(upstream, row.sealedApiKey)))) return notSent("not_usable");
  if (terms !== null && row.shared !== terms.shared) return notSent("changed");
  const target = { upstream, model: "", priority: 0, weight: 1 };
  const answer = await upstreams.send(
    target,
    {
      callId,
      method,
      path,
      contentType: body === null ? null : "application/json",
      accept: "application/json",
      body: body === null ? null : [new TextEncoder().encode(body)],
      // A refused connection proves non-execution, so its hold can be released; a lost one does not.
      careful: body !== null,
      patience: "whole",
      signal,
    },
    routing,
  );
  if (answer.kind === "refused") return notSent("out_of_reach");
  if (answer.kind !== "answer") return { answer: { kind: "unknown", sentAtMs }, pauseMs: null };
  const { response } = answer;
  const text = await (isList && response.status === 200 ? listText(response) : boundedText(response));
  // An unreadable answer counts as none.
  if (text === undefined) {
    log({ event: "compute_answer_unreadable", upstream, path, status: response.status });
    return { answer: { kind: "unknown", sentAtMs }, pauseMs: null };
  }
  const shown = response.status < 400 ? text : upstreams.scrub(errorText(text), target, routing);
  return {
    answer: { kind: "answered", status: response.status, body: shown, sentAtMs },
    pauseMs: response.status === 429 ? pauseOf(response.headers) : null,
  };
}

/** Undefined also where the books cannot be read: nothing was sent then. */
const inBooks = (env: Env, upstream: string): Promise<UpstreamRow | undefined> =>
  findUpstream(env.BOOKS, upstream).catch(() => undefined);

const opens = (unsealed: Promise<string>): Promise<boolean> =>
  unsealed.then(
    () => true,
    () => false,
  );

/** The contract's `error`, or an empty text. Tenants do not see anything else that an upstream writes. */
function errorText(text: string): string {
  const { error } = parseObject(text) ?? {};
  return typeof error === "string" ? error : "";
}

/** Undefined if it is too long or breaks off. */
async function boundedText(response: Response): Promise<string | undefined> {
  const decoder = new TextDecoder();
  let text = "";
  let bytes = 0;
  for await (const chunk of (response.body ?? []) as AsyncIterable<Uint8Array>) {
    bytes += chunk.byteLength;
    if (bytes > MOST_ANSWER_BYTES) return undefined;
    text += decoder.decode(chunk, { stream: true });
  }
  return text + decoder.decode();
}

/** Undefined for what is no list, breaks off, or is too long all the same. */
async function listText(response: Response): Promise<string | undefined> {
  const reader = new ListReader(MOST_ANSWER_BYTES, MOST_LIST_BYTES);
  for await (const chunk of (response.body ?? []) as AsyncIterable<Uint8Array>) {
    if (!reader.push(chunk)) return undefined;
  }
  return reader.end();
}

/** How long an upstream can keep us back, ms. */
export const LONGEST_PAUSE_MS = 60_000;

/** `retry-after` in seconds or as a date, else 5 s. At most a minute, so that an upstream cannot block our stops. */
function pauseOf(headers: Headers): number {
  const seconds = Number(headers.get("retry-after") ?? Number.NaN);
  const pauseMs = Number.isFinite(seconds) ? seconds * 1_000 : 5_000;
  return Math.min(Math.max(pauseMs, 1_000), LONGEST_PAUSE_MS);
}
