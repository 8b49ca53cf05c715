/**
 * What an upstream's error says about a request. Its message passes for the statuses that judge the request itself,
 * after the operator's details are removed; for other statuses it does not.
 */
import type { Refusal } from "../../core/refusal.ts";
import { OPERATORS, passesWords, type ReadCode } from "../../core/routing/failure.ts";
import type { Ports, UpstreamAnswer } from "../ports.ts";
import { readUpstream } from "./upstream-body.ts";

/** Error bodies are cut off at this length: longer ones are not worth reading. */
const MAX_ERROR_BYTES = 64 * 1024;

const NO_CREDIT = "This instance has no credit at the service, or was stopped for lack of it. Ask your operator.";

/** `coded`: the row knows the error code. `passedOver`: another target may still take the call. */
export interface UpstreamWords {
  readonly refusal: Refusal;
  readonly coded: boolean;
  readonly passedOver: boolean;
}
const plain = (refusal: Refusal): UpstreamWords => ({ refusal, coded: false, passedOver: false });

/** Null where no message may pass. The body is read or cancelled. */
export async function upstreamWords(
  answer: UpstreamAnswer & { kind: "answer" },
  passing: { readonly ownInstance: boolean; readonly readCode: ReadCode | null; readonly retryAfterMs: number | null },
  scrub: (text: string) => string,
  signal: AbortSignal,
  ports: Ports,
): Promise<UpstreamWords | null> {
  const { status } = answer.response;
  const passes = passesWords(status, passing.ownInstance);
  // A known code decides whatever the status is, except for statuses that are the operator's own trouble.
  const readCode = OPERATORS.has(status) ? null : passing.readCode;
  if (!passes && !readCode) {
    await answer.response.body?.cancel().catch(() => undefined);
    return null;
  }
  if (status === 402) {
    // The upstream's message is about the operator's balance and prices: pass the status with our own message.
    await answer.response.body?.cancel().catch(() => undefined);
    return plain({ kind: "upstream_refused", status, message: NO_CREDIT, param: null, code: "insufficient_quota" });
  }
  const bytes = await readUpstream(answer, MAX_ERROR_BYTES, signal, ports);
  const said = errorFields(typeof bytes === "string" ? undefined : parseAnswer(bytes));
  const clean = (text: string | null) => (text === null ? null : scrub(text));
  const message = clean(said.message) || "The model server refused the request.";
  const coded = readCode?.({ status, code: said.code, retryAfterMs: passing.retryAfterMs }, message);
  if (coded) return { ...coded, coded: true };
  if (!passes) return null;
  return plain({
    kind: "upstream_refused",
    status,
    message,
    param: clean(said.param),
    code: clean(said.code),
  });
}

const decoder = new TextDecoder();

/** Undefined if it is not JSON. */
export function parseAnswer(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(decoder.decode(bytes));
  } catch {
    return undefined;
  }
}

/** The fields of an error body in OpenAI's shape or in the flat one. */
function errorFields(body: unknown): { message: string | null; param: string | null; code: string | null } {
  const outer = typeof body === "object" && body !== null ? (body as Record<string, unknown>) : {};
  const inner =
    typeof outer.error === "object" && outer.error !== null ? (outer.error as Record<string, unknown>) : outer;
  const text = (value: unknown) => (typeof value === "string" ? value : null);
  return {
    message: text(inner.message) ?? text(outer.error),
    param: text(inner.param),
    code: text(inner.code),
  };
}
