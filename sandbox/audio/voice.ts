/**
 * `POST /v1/audio/voice-clone` and `POST /v1/audio/text-local-edit`: wav in a borrowed voice.
 *
 * A clone lasts as long as speech of its text. An edit lasts as long as its source, plus or minus the change in the
 * text's length. Only the account `operator` may use the voice model; others get 403.
 */
import { z } from "zod";
import { type Form, readForm } from "../body.ts";
import { check } from "../check.ts";
import type { Answer, Endpoint, Received, Site } from "../endpoint.ts";
import { done, invalid, type Outcome, refuse } from "../refusal.ts";
import { measureMs } from "./measure.ts";
import { MS_PER_CHARACTER, SHORTEST_MS, spokenMs, wholeAudio } from "./speech.ts";

const ALLOWED_ACCOUNT = "operator";

const CloneRequest = z.looseObject({
  model: z.string().min(1),
  input: z.string().min(1).max(4_000),
  language: z.string().optional(),
});
const EditRequest = z.looseObject({
  model: z.string().min(1),
  original_text: z.string().min(1),
  edited_text: z.string().min(1).max(4_000),
});

export const voiceClone: Endpoint = {
  method: "POST",
  path: "/v1/audio/voice-clone",
  errors: "openai",
  prepare: async (received) => {
    const form = await readForm(received);
    if (!form.ok) return form;
    const body = check(form.value.fields, CloneRequest);
    if (!body.ok) return body;
    const reference = await clipMs(form.value, "reference_audio");
    if (!reference.ok) return reference;
    return voiced(received, body.value.model, spokenMs(body.value.input, 1));
  },
};

export const textLocalEdit: Endpoint = {
  method: "POST",
  path: "/v1/audio/text-local-edit",
  errors: "openai",
  prepare: async (received) => {
    const form = await readForm(received);
    if (!form.ok) return form;
    const body = check(form.value.fields, EditRequest);
    if (!body.ok) return body;
    const source = await clipMs(form.value, "source_audio");
    if (!source.ok) return source;
    const { model, original_text, edited_text } = body.value;
    const grown = [...edited_text].length - [...original_text].length;
    return voiced(received, model, Math.max(SHORTEST_MS, source.value + grown * MS_PER_CHARACTER));
  },
};

/** The length of a required clip, ms. */
async function clipMs({ files }: Form, name: string): Promise<Outcome<number>> {
  const file = files[name];
  if (!file) return invalid(`\`${name}\` must be a file.`, name);
  const ms = measureMs(new Uint8Array(await file.arrayBuffer()));
  return ms === undefined ? invalid(`\`${name}\` is not audio of a supported format.`, name) : done(ms);
}

function voiced(received: Received, model: string, ms: number) {
  return done({
    model,
    kinds: ["voice" as const],
    executes: true,
    answer: (site: Site): Answer => {
      if (received.account !== ALLOWED_ACCOUNT) {
        return {
          kind: "refusal",
          ...refuse(403, "model_not_allowed", `The model \`${model}\` is not allowed for this key.`, "model"),
        };
      }
      return wholeAudio("wav", ms, { "inference-id": `inf_${site.serviceRequestId.slice(4, 28)}` });
    },
  });
}
