/** `POST /v1/images/generations` and `POST /v1/images/edits`: one picture a call, as bytes or at a link for 24 h. */
import { z } from "zod";
import { toBase64 } from "../base64.ts";
import { readForm, readJson } from "../body.ts";
import { check } from "../check.ts";
import type { Answer, Endpoint, Site } from "../endpoint.ts";
import { fileLink } from "../files.ts";
import { done, invalid } from "../refusal.ts";
import { hash32 } from "../seed.ts";
import { png } from "./png.ts";

const LINK_LIFETIME_MS = 24 * 3_600_000;
/** The contract says about 1000. Somewhat longer prompts pass, absurd ones do not. */
const LONGEST_PROMPT = 4_000;

const size = z.enum(["512x512", "768x768", "1024x1024", "1024x768", "768x1024"]).nullish();
const prompt = z.string().min(1).max(LONGEST_PROMPT);
const format = z.enum(["b64_json", "url"]).nullish();

const GenerationRequest = z.looseObject({
  model: z.string().min(1),
  prompt,
  n: z.literal(1).nullish(),
  size,
  response_format: format,
  steps: z.int().min(1).max(200).nullish(),
  seed: z.int().nullish(),
});
const EditRequest = z.looseObject({ model: z.string().min(1), prompt, size, response_format: format });

export const imageGenerations: Endpoint = {
  method: "POST",
  path: "/v1/images/generations",
  errors: "openai",
  prepare: (received) => {
    const read = readJson(received, GenerationRequest);
    if (!read.ok) return read;
    const body = read.value;
    const seed = hash32(JSON.stringify([body.model, body.prompt, body.seed ?? 0]));
    return done({
      model: body.model,
      kinds: ["image"],
      executes: true,
      answer: (site) => picture(body.size, body.response_format, seed, site),
    });
  },
};

export const imageEdits: Endpoint = {
  method: "POST",
  path: "/v1/images/edits",
  errors: "openai",
  prepare: async (received) => {
    const form = await readForm(received);
    if (!form.ok) return form;
    const read = check(form.value.fields, EditRequest);
    if (!read.ok) return read;
    const image = form.value.files.image;
    if (!image || image.size === 0) return invalid("`image` must be a file.", "image");
    const body = read.value;
    const seed = hash32(JSON.stringify([body.model, body.prompt, image.size]));
    return done({
      model: body.model,
      kinds: ["image_edit"],
      executes: true,
      answer: (site) => picture(body.size, body.response_format, seed, site),
    });
  },
};

async function picture(
  size: string | null | undefined,
  format: string | null | undefined,
  seed: number,
  site: Site,
): Promise<Answer> {
  const [width = 1024, height = 1024] = (size ?? "1024x1024").split("x").map(Number);
  const item =
    format === "url"
      ? { url: fileLink(site, "image.png", { width, height, seed }, LINK_LIFETIME_MS), revised_prompt: null }
      : { b64_json: toBase64(await png(width, height, seed)), revised_prompt: null };
  return { kind: "json", body: { created: Math.floor(site.nowMs / 1000), data: [item] }, usage: { images: 1 } };
}
