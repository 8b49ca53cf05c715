/**
 * JSON over fetch, with a bearer token: what every call of a Tollgate API needs. Web standards only, so it runs in
 * Node, browsers and Workers alike. What answers may be anything, so an answer is read to a bound and must be JSON, and
 * a redirect is not followed: the token is for one address.
 */

/** Where an API is, and who asks. */
export interface Connection {
  /** The gateway's address, without a slash at the end. */
  readonly url: string;
  readonly token: string;
  /** The longest that a call may take to its last byte, ms; absent: as long as it takes. */
  readonly patienceMs?: number;
}

export interface Answer<Body> {
  readonly status: number;
  readonly body: Body;
}

/** An answer that is not 2xx. */
export class ApiError extends Error {
  readonly status: number;
  readonly body: unknown;

  constructor(call: string, { status, body }: Answer<unknown>) {
    super(`${call}: ${status} ${JSON.stringify(body)}`);
    this.status = status;
    this.body = body;
  }
}

/**
 * No answer of this API came. `broken`: it began and broke off, so a change may have been made; `late`: it took too
 * long, the same; `foreign`: something else than Tollgate answered, such as a proxy; `large`: it is larger than any
 * answer.
 */
export type NoAnswer = "unreachable" | "broken" | "late" | "foreign" | "redirected" | "large";

export class NoAnswerError extends Error {
  readonly why: NoAnswer;
  readonly status: number | null;

  constructor(call: string, why: NoAnswer, status: number | null, cause: unknown) {
    super(`${call}: ${WORDS[why]}${status === null ? "" : ` (status ${status})`}${reasonOf(cause)}`, { cause });
    this.why = why;
    this.status = status;
  }
}

const WORDS: Readonly<Record<NoAnswer, string>> = {
  unreachable: "nothing answers there",
  broken: "the answer broke off",
  late: "no whole answer came in time",
  foreign: "the answer is not JSON, so it is not Tollgate's: perhaps a proxy's",
  redirected: "the answer is a redirect, which is not followed",
  large: "the answer is larger than any of Tollgate",
};

/** Such as ` (ECONNREFUSED)`. */
function reasonOf(error: unknown): string {
  const cause = error instanceof Error ? error.cause : undefined;
  const code = cause instanceof Error && "code" in cause ? cause.code : undefined;
  return typeof code === "string" ? ` (${code})` : "";
}

export interface AskOptions {
  /** Sent again with the same one within a day, a POST is carried out once. */
  readonly idempotencyKey?: string | undefined;
}

const MOST_BYTES = 64 * 1024 * 1024;

/** Sends a call; the answer has begun, with whatever status. */
export async function send(
  { url, token, patienceMs }: Connection,
  method: string,
  path: string,
  body?: unknown,
  { idempotencyKey }: AskOptions = {},
): Promise<Response> {
  const call = `${method} ${path}`;
  let response: Response;
  try {
    response = await fetch(`${url}${path}`, {
      method,
      redirect: "manual",
      headers: {
        authorization: `Bearer ${token}`,
        "content-type": "application/json",
        ...(idempotencyKey !== undefined && { "idempotency-key": idempotencyKey }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      ...(patienceMs !== undefined && { signal: AbortSignal.timeout(patienceMs) }),
    });
  } catch (error) {
    throw new NoAnswerError(call, isTimeout(error) ? "late" : isBroken(error) ? "broken" : "unreachable", null, error);
  }
  if (response.type === "opaqueredirect" || (response.status >= 300 && response.status < 400)) {
    await response.body?.cancel();
    throw new NoAnswerError(call, "redirected", response.status || null, null);
  }
  return response;
}

/** Any status is an answer. An answer without a body is `{}`. */
export async function ask<Body>(
  connection: Connection,
  method: string,
  path: string,
  body?: unknown,
  options: AskOptions = {},
): Promise<Answer<Body>> {
  const response = await send(connection, method, path, body, options);
  const text = await textOf(response, `${method} ${path}`);
  try {
    return { status: response.status, body: (text ? JSON.parse(text) : {}) as Body };
  } catch (error) {
    // JSON that does not parse was cut on its way.
    const json = /\bjson\b/.test(response.headers.get("content-type") ?? "");
    throw new NoAnswerError(`${method} ${path}`, json ? "broken" : "foreign", response.status, error);
  }
}

async function textOf(response: Response, call: string): Promise<string> {
  const decoder = new TextDecoder();
  let bytes = 0;
  let text = "";
  try {
    for await (const chunk of (response.body ?? []) as AsyncIterable<Uint8Array>) {
      bytes += chunk.length;
      if (bytes > MOST_BYTES) throw new NoAnswerError(call, "large", response.status, null);
      text += decoder.decode(chunk, { stream: true });
    }
    return text + decoder.decode();
  } catch (error) {
    if (error instanceof NoAnswerError) throw error;
    throw new NoAnswerError(call, isTimeout(error) ? "late" : "broken", response.status, error);
  }
}

const isTimeout = (error: unknown): boolean => error instanceof Error && error.name === "TimeoutError";
/** The connection was there and ended before the answer began. */
const isBroken = (error: unknown): boolean => /\((ECONNRESET|EPIPE|UND_ERR_SOCKET|HPE_\w+)\)/.test(reasonOf(error));
