/** A smallest valid call of each row of the endpoint table. */
import type { RawBody } from "../../src/core/endpoints/body.ts";
import type { RawCall } from "../../src/core/endpoints/call.ts";
import { freshBoundary } from "../../src/core/formats/multipart/form-writer.ts";
import { parseForm } from "../../src/core/formats/multipart.ts";

export const BOUNDARY = "fixture-boundary";
/** Under which forms go upstream. */
export const FRESH_BOUNDARY = freshBoundary(new Uint8Array(16).fill(0xf0));

/** A multipart body; a value with a file name is a file. */
export function formBytes(
  fields: readonly (readonly [name: string, value: string | Uint8Array, fileName?: string])[],
): Uint8Array {
  const pieces = fields.flatMap(([name, value, fileName]) => [
    Buffer.from(
      `--${BOUNDARY}\r\nContent-Disposition: form-data; name="${name}"${fileName === undefined ? "" : `; filename="${fileName}"\r\nContent-Type: application/octet-stream`}\r\n\r\n`,
    ),
    Buffer.from(value),
    Buffer.from("\r\n"),
  ]);
  return Buffer.concat([...pieces, Buffer.from(`--${BOUNDARY}--\r\n`)]);
}

export function formBody(...fields: Parameters<typeof formBytes>[0]): RawBody {
  const parsed = parseForm(formBytes(fields), BOUNDARY);
  if (!parsed.ok) throw new Error(parsed.message);
  return { kind: "form", boundary: FRESH_BOUNDARY, parts: parsed.parts };
}

const json = (value: unknown): RawBody => ({ kind: "json", value });
const call = (body: RawBody, params: Record<string, string> = {}): RawCall => ({ askedPath: "/", params, body });

/** By id of the row. */
export const FIXTURES: Readonly<Record<string, RawCall>> = {
  "chat.completions": call(json({ model: "m", messages: [{ role: "user", content: "hi" }] })),
  "responses.create": call(json({ model: "m", input: "hi" })),
  "responses.get": call({ kind: "none" }, { id: "resp_1" }),
  "responses.cancel": call({ kind: "none" }, { id: "resp_1" }),
  "responses.delete": call({ kind: "none" }, { id: "resp_1" }),
  "responses.input_items": call({ kind: "none" }, { id: "resp_1" }),
  "images.generations": call(json({ model: "m", prompt: "a cat" })),
  "images.edits": call(formBody(["model", "m"], ["image", "png", "a.png"], ["prompt", "a dog"])),
  "audio.speech": call(json({ model: "m", voice: "v", input: "hi" })),
  "audio.voice_clone": call(formBody(["model", "m"], ["input", "hi"], ["reference_audio", "wav", "a.wav"])),
  "audio.text_local_edit": call(
    formBody(["model", "m"], ["source_audio", "wav", "a.wav"], ["original_text", "a"], ["edited_text", "b"]),
  ),
  "audio.transcriptions": call(formBody(["file", "wav", "a.wav"], ["model", "m"])),
  embeddings: call(json({ model: "m", input: "hi" })),
  rerank: call(json({ model: "m", query: "q", documents: ["d"] })),
  "video.generations": call(json({ model: "m", prompt: "a cat" })),
  "video.jobs": call({ kind: "none" }, { id: "vid_1" }),
  "video.quote": call(json({ model: "m", prompt: "a cat" })),
  "video.pricing": call({ kind: "none" }, { model: "m" }),
  "models.list": call({ kind: "none" }),
  "models.get": call({ kind: "none" }, { model: "m" }),
  custom: call(
    { kind: "any", contentType: "text/plain", bytes: new Uint8Array([1]) },
    { instance_id: "7", custom_api_path: "run" },
  ),
};
