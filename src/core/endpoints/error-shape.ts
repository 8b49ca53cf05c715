/** The error formats of the contract, one per family of endpoints. */
import type { HttpRefusal } from "../http-refusal.ts";

export type ErrorShape = "openai" | "video" | "compute";

/** Error codes that differ on the contract's video calls. */
const VIDEO_WORDS: Readonly<Record<string, string>> = { invalid_request_error: "invalid_request" };

const BODIES: Readonly<Record<ErrorShape, (http: HttpRefusal) => unknown>> = {
  openai: ({ message, type, param, code }) => ({ error: { message, type, param, code } }),
  video: ({ message, code }) => ({ error: message, code: VIDEO_WORDS[code] ?? code }),
  compute: ({ message }) => ({ error: message }),
};

/** The error's body in the given format. */
export const errorBody = (http: HttpRefusal, shape: ErrorShape): unknown => BODIES[shape](http);
