/**
 * The operator's client as the command line uses it. A call that failed for a moment is sent again where that changes
 * nothing twice: reads, calls that set a thing to a value, and POSTs, which each carry an idempotency key.
 */
import { randomUUID } from "node:crypto";
import { type Answer, ApiError, type AskOptions, type Connection, NoAnswerError } from "../client/http.ts";
import { OperatorClient } from "../client/operator.ts";
import { Failure, fault, usage } from "./failure.ts";

const MOST_ATTEMPTS = 4;
const FIRST_PAUSE_MS = 300;
/** Statuses that say: a moment later. */
const BUSY = new Set([429, 503]);

export class Gateway extends OperatorClient {
  readonly url: string;
  readonly #pause: (ms: number) => Promise<void>;

  constructor(connection: Connection, pause: (ms: number) => Promise<void>) {
    super(connection);
    this.url = connection.url;
    this.#pause = pause;
  }

  override async ask<Body = Record<string, unknown>>(
    method: string,
    path: string,
    body?: unknown,
    options: AskOptions = {},
  ): Promise<Answer<Body>> {
    const keyed = method === "POST" ? { idempotencyKey: randomUUID(), ...options } : options;
    for (let attempt = 1; ; attempt++) {
      const last = attempt === MOST_ATTEMPTS;
      try {
        const answer = await super.ask<Body>(method, path, body, keyed);
        if (last || !BUSY.has(answer.status)) return answer;
      } catch (error) {
        if (last || !passes(error, method)) throw error;
      }
      await this.#pause(FIRST_PAUSE_MS * 3 ** (attempt - 1));
    }
  }
}

/** A DELETE that had no answer may have been carried out: sent again it would find nothing. */
const passes = (error: unknown, method: string): boolean =>
  error instanceof NoAnswerError && error.why === "broken" && method !== "DELETE";

interface ErrorBody {
  readonly error?: { readonly message?: unknown; readonly code?: unknown; readonly param?: unknown };
}

/** What went wrong with a call, as a person is told it. */
export function failureOf(error: unknown, url: string): unknown {
  if (error instanceof NoAnswerError) return fault(`${url}: ${adviceFor(error)}`);
  if (error instanceof RangeError && / is no name or id$/.test(error.message)) return usage(`${error.message}.`);
  if (!(error instanceof ApiError)) return error;
  const { message, code } = (error.body as ErrorBody | null)?.error ?? {};
  if (typeof message !== "string") {
    return fault(`${url} answered ${error.status} with a body that is not Tollgate's. Is this its address?`);
  }
  const named = typeof code === "string" ? code : null;
  if (error.status === 401) {
    return new Failure("refused", `${url} does not know this token (401). Set TOLLGATE_TOKEN to a live one.`, named);
  }
  return new Failure(endingOf(error.status), message, named);
}

function endingOf(status: number): Failure["ending"] {
  if (status >= 500) return "fault";
  if (status === 404) return "missing";
  return status === 400 || status === 413 ? "usage" : "refused";
}

function adviceFor({ why, message, status, cause }: NoAnswerError): string {
  switch (why) {
    case "unreachable":
      return `nothing answers there${detail(cause)}. Is it up, and is the address right?`;
    case "broken":
      return "the answer broke off. A change may have been made or not: the same command again is safe.";
    case "late":
      return "no whole answer came in time. A change may have been made or not: look, or give more --timeout.";
    case "foreign":
      return `the answer (status ${status}) is not JSON, so it is not Tollgate's: perhaps a proxy's or another server's. Check the address.`;
    case "redirected":
      return "the answer is a redirect, and a token is not sent elsewhere. Give the address that it leads to.";
    case "large":
      return message;
  }
}

function detail(cause: unknown): string {
  const inner = cause instanceof Error ? cause.cause : undefined;
  return inner instanceof Error && "code" in inner ? ` (${String(inner.code)})` : "";
}
