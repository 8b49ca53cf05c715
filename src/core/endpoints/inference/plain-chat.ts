/**
 * A hand check of chat bodies as nearly all are. It says yes to nothing that the schema in `chat.ts` refuses; of the
 * rest it says nothing, and the schema judges.
 */
import { asObject } from "../../formats/json-fields.ts";
import { urlFault } from "../../formats/public-url.ts";
import { isString } from "../list.ts";

const DATA_URL = /^data:image\/[\w.+-]+;base64,[A-Za-z0-9+/]*={0,2}$/;
export const isImageUrl = (url: string): boolean => DATA_URL.test(url) || urlFault(url) === undefined;

/** The most choices per call, like OpenAI's. */
export const MAX_CHOICES = 128;

export const ROLES = ["system", "developer", "user", "assistant", "tool", "function"] as const;
const KNOWN_ROLES: ReadonlySet<unknown> = new Set(ROLES);

/** The schema's judgement where it is good, in a hundredth of its time: a body may hold 80,000 messages. */
export const isPlainMessage = (message: unknown): boolean => {
  const { role, content } = asObject(message) ?? {};
  if (!KNOWN_ROLES.has(role)) return false;
  if (content === null || content === undefined) return role === "assistant";
  return typeof content === "string" || (Array.isArray(content) && content.length > 0 && content.every(isPlainPart));
};

export const isPlainPart = (part: unknown): boolean => {
  const { type, text, image_url } = asObject(part) ?? {};
  if (type === "text") return typeof text === "string";
  if (type !== "image_url") return typeof type === "string";
  const url = asObject(image_url)?.url;
  return typeof url === "string" && isImageUrl(url);
};

const isNumber = (least: number, most: number) => (value: unknown) =>
  typeof value === "number" && value >= least && value <= most;
const isCount =
  (most = Number.MAX_SAFE_INTEGER) =>
  (value: unknown) =>
    Number.isInteger(value) && isNumber(1, most)(value);

/** The fields that nearly every call is made of, and what they nearly always hold. */
const PLAIN_FIELDS: ReadonlyMap<string, (value: unknown) => boolean> = new Map([
  ["model", (value: unknown) => typeof value === "string" && value.length > 0 && value.length <= 256],
  ["messages", (value: unknown) => Array.isArray(value) && value.length > 0 && value.every(isPlainMessage)],
  ["max_tokens", isCount()],
  ["max_completion_tokens", isCount()],
  ["temperature", isNumber(0, 2)],
  ["top_p", isNumber(0, 1)],
  ["n", isCount(MAX_CHOICES)],
  ["stream", (value: unknown) => typeof value === "boolean"],
  ["stream_options", isPlainOptions],
  ["user", isString],
]);

function isPlainOptions(value: unknown): boolean {
  const options = asObject(value);
  return (
    options !== undefined &&
    Object.keys(options).join() === "include_usage" &&
    typeof options.include_usage === "boolean"
  );
}

/** The schema's judgement of a body that is certainly good, without the schema. False says nothing. */
export const isPlainChat = (body: object): boolean =>
  "model" in body &&
  "messages" in body &&
  Object.entries(body).every(([name, value]) => PLAIN_FIELDS.get(name)?.(value) === true);
