/** The shapes that errors have, one for each family of endpoints of the contract. */
import type { HttpRefusal } from "../refusal.ts";

export type ErrorShape = "openai" | "video" | "compute";

/** Codes that the contract's video errors have another word for. */
const VIDEO_WORDS: Readonly<Record<string, string>> = { invalid_request_error: "invalid_request" };

const BODIES: Readonly<Record<ErrorShape, (http: HttpRefusal) => unknown>> = {
  openai: ({ message, type, param, code }) => ({ error: { message, type, param, code } }),
  video: ({ message, code }) => ({ error: message, code: VIDEO_WORDS[code] ?? code }),
  compute: ({ message }) => ({ error: message }),
};

/** The body of an error. */
export const errorBody = (http: HttpRefusal, shape: ErrorShape): unknown => BODIES[shape](http);
