/**
 * An upstream's own words about a request: of the statuses that judge the request itself they pass, with everything of
 * the operator's taken out; of all others they do not.
 */
import type { ErrorShape } from "../../core/endpoints/endpoint.ts";
import type { Refusal } from "../../core/refusal.ts";
import { OPERATORS, passesWords } from "../../core/routing/failure.ts";
import { videoRefusal } from "../../core/video/codes.ts";
import type { Ports, UpstreamAnswer } from "../ports.ts";
import { readUpstream } from "./upstream-body.ts";

/** An error body longer than this is cut off; its words are not worth more. */
const MAX_ERROR_BYTES = 64 * 1024;

const NO_CREDIT = "This instance has no credit at the service, or was stopped for lack of it. Ask your operator.";

/** Null where none may pass; the body is read or let go. */
export async function upstreamWords(
  answer: UpstreamAnswer & { kind: "answer" },
  passing: { readonly ownInstance: boolean; readonly errors: ErrorShape; readonly retryAfterMs: number | null },
  scrub: (text: string) => string,
  signal: AbortSignal,
  ports: Ports,
): Promise<Refusal | null> {
  const { status } = answer.response;
  const passes = passesWords(status, passing.ownInstance);
  // The codes of video say what happened whatever the status is, but where the status is the operator's own trouble.
  const coded = passing.errors === "video" && !OPERATORS.has(status);
  if (!passes && !coded) {
    await answer.response.body?.cancel().catch(() => undefined);
    return null;
  }
  if (status === 402) {
    // It speaks of the operator's balance and prices there: the status passes, the words are ours.
    await answer.response.body?.cancel().catch(() => undefined);
    return { kind: "upstream_refused", status, message: NO_CREDIT, param: null, code: "insufficient_quota" };
  }
  const bytes = await readUpstream(answer, MAX_ERROR_BYTES, signal, ports);
  const said = errorFields(typeof bytes === "string" ? undefined : parseAnswer(bytes));
  const clean = (text: string | null) => (text === null ? null : scrub(text));
  const message = clean(said.message) || "The model server refused the request.";
  const refused = coded ? videoRefusal({ status, code: said.code, retryAfterMs: passing.retryAfterMs }, message) : null;
  if (refused || !passes) return refused;
  return {
    kind: "upstream_refused",
    status,
    message,
    param: clean(said.param),
    code: clean(said.code),
  };
}

const decoder = new TextDecoder();

/** Undefined where it is no JSON. */
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
