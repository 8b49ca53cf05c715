/** Image generation and editing (contract: POST /v1/images/generations, POST /v1/images/edits). */
import * as z from "zod/mini";
import { imagesMade } from "../../meters/flat.ts";
import { refused } from "../../outcome.ts";
import { characters } from "../../shapes.ts";
import { atOnce } from "../../steps.ts";
import { IMAGE_ANSWER } from "../answer-names.ts";
import { form, isFormFile, json } from "../body.ts";
import { endpoint } from "../endpoint.ts";
import { OTHER_DATA } from "../inspection/callers-data.ts";
import type { FieldRules } from "../inspection/inspect.ts";
import { MORE_IMAGES } from "../inspection/refused.ts";

const SIZES = ["512x512", "768x768", "1024x1024", "1024x768", "768x1024"] as const;

/** OpenAI's name for the default size. */
const AUTO = "auto";

const ImageGenerationRequest = z.looseObject({
  model: characters(1, 256),
  prompt: z.string().check(z.minLength(1)),
  n: z.nullish(z.literal(1, "must be 1: one image is made per call")),
  size: z.nullish(z.enum([...SIZES, AUTO])),
  response_format: z.nullish(z.enum(["b64_json", "url"])),
  steps: z.nullish(z.int().check(z.minimum(1))),
  seed: z.nullish(z.int()),
  user: z.nullish(z.string()),
});

const ImageEditRequest = z.looseObject({
  model: characters(1, 256),
  image: z.custom((value) => isFormFile(value) && value.bytes.length > 0, "must be an image file"),
  prompt: z.string().check(z.minLength(1)),
  n: z.optional(z.literal("1", "must be 1: one image is made per call")),
  size: z.optional(z.string()),
});

const FIELDS: FieldRules = { data: OTHER_DATA, refused: MORE_IMAGES, neutral: { size: AUTO } };

const oneImage = form(ImageEditRequest, FIELDS);
/** SDKs send a list of images as `image[]`; one is the same as `image`. */
const editBody: typeof oneImage = {
  ...oneImage,
  parse(raw, rules) {
    if (raw.kind !== "form") return oneImage.parse(raw, rules);
    const sent = raw.parts.filter(({ name }) => name === "image" || name === LISTED);
    if (sent.length > 1 && sent.some(({ name }) => name === LISTED)) {
      const message = `\`image\` must be one file: ${sent.length} were sent, and one image is edited per call.`;
      return atOnce(refused({ kind: "invalid_request", message, param: "image" }));
    }
    const parts = raw.parts.map((part) => (part.name === LISTED ? { ...part, name: "image" } : part));
    return oneImage.parse({ ...raw, parts }, rules);
  },
};
const LISTED = "image[]";

export const imageGenerations = endpoint({
  id: "images.generations",
  method: "POST",
  path: "/v1/images/generations",
  summary: "One image from a prompt",
  scope: "inference",
  flow: { kind: "forwarded" },
  body: json(ImageGenerationRequest, FIELDS),
  model: "model",
  kinds: ["image"],
  instances: true,
  meter: imagesMade(1),
  answer: IMAGE_ANSWER,
  retry: "costly",
  errors: "openai",
});

export const imageEdits = endpoint({
  id: "images.edits",
  method: "POST",
  path: "/v1/images/edits",
  summary: "One image from an image and a prompt",
  scope: "inference",
  flow: { kind: "forwarded" },
  body: editBody,
  model: "model",
  kinds: ["image"],
  instances: true,
  meter: imagesMade(1),
  answer: IMAGE_ANSWER,
  retry: "costly",
  errors: "openai",
});
