/** Why a call is not served, and the contract's two error shapes. */

export interface Refusal {
  readonly status: number;
  readonly code: string;
  readonly message: string;
  readonly param: string | null;
}

export type Outcome<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly refusal: Refusal };

/** Video answers `{error, code}`; every other endpoint OpenAI's object. */
export type ErrorShape = "openai" | "video";

export const done = <T>(value: T): Outcome<T> => ({ ok: true, value });

export function refuse(
  status: number,
  code: string,
  message: string,
  param: string | null = null,
): { readonly ok: false; readonly refusal: Refusal } {
  return { ok: false, refusal: { status, code, message, param } };
}

export const invalid = (message: string, param: string | null = null) => refuse(400, "invalid_request", message, param);

export function refusalBody(refusal: Refusal, shape: ErrorShape): object {
  if (shape === "video") return { error: refusal.message, code: refusal.code };
  const type = refusal.status >= 500 ? "server_error" : "invalid_request_error";
  return { error: { message: refusal.message, type, param: refusal.param, code: refusal.code } };
}
