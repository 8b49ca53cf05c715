/**
 * JSON over fetch, with a bearer token: what every call of a Tollgate API needs. Web standards only, so it runs in Node,
 * browsers and Workers alike.
 */

/** Where an API is, and who asks. */
export interface Connection {
  /** The gateway's address, without a slash at the end. */
  readonly url: string;
  readonly token: string;
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

/** Any status is an answer. An answer without a body is `{}`. */
export async function ask<Body>(
  { url, token }: Connection,
  method: string,
  path: string,
  body?: unknown,
): Promise<Answer<Body>> {
  const response = await fetch(`${url}${path}`, {
    method,
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, body: (text ? JSON.parse(text) : {}) as Body };
}

/** Throws an `ApiError` on anything but 2xx. */
export async function call<Body>(connection: Connection, method: string, path: string, body?: unknown): Promise<Body> {
  const answer = await ask<Body>(connection, method, path, body);
  if (answer.status < 200 || answer.status > 299) throw new ApiError(`${method} ${path}`, answer);
  return answer.body;
}
