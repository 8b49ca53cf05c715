/** Embeddings (contract: POST /v1/embeddings), charged by input tokens. */
import * as z from "zod";
import { asObject } from "../../formats/json-fields.ts";
import type { Meter } from "../../meters/meter.ts";
import { countParts } from "../../meters/parts.ts";
import { believeInput, boundReading, OwnCount } from "../../meters/tokens.ts";
import type { Usage } from "../../pricing/usage.ts";
import { EMBEDDINGS_ANSWER } from "../answer-names.ts";
import { json } from "../body.ts";
import { endpoint } from "../endpoint.ts";
import { OTHER_DATA } from "../inspection/callers-data.ts";
import { OTHER_INPUT } from "../inspection/refused.ts";
import { isString, list } from "../list.ts";

const EmbeddingsRequest = z.looseObject({
  model: z.string().min(1).max(256),
  input: z.union(
    [z.string().min(1), list(z.string(), { least: 1, plain: isString })],
    "must be a text or an array of texts",
  ),
  encoding_format: z.enum(["float", "base64"]).nullish(),
  user: z.string().nullish(),
});
type Embeddings = z.infer<typeof EmbeddingsRequest>;

const texts = ({ input }: Embeddings): readonly string[] => (typeof input === "string" ? [input] : input);

const meter: Meter<Embeddings> = {
  bound: (body, measured, row) => boundReading({ sequences: texts(body).length, extraTokens: 0 }, measured, row),
  reader: (body, sent) => {
    const own = new OwnCount(meter.bound(body, sent.measured, sent.row), sent);
    let exact: Usage | undefined;
    return {
      kind: "json",
      read(answer) {
        const list = asObject(answer);
        if (!Array.isArray(list?.data)) return false;
        exact = believeInput(asObject(list.usage)?.prompt_tokens);
        return true;
      },
      reading: () => own.reading(exact),
    };
  },
};

export const embeddings = endpoint({
  id: "embeddings",
  method: "POST",
  path: "/v1/embeddings",
  summary: "Vectors of one or many texts",
  scope: "inference",
  flow: { kind: "forwarded" },
  body: json(EmbeddingsRequest, { data: OTHER_DATA, refused: OTHER_INPUT }),
  model: "model",
  kinds: ["embedding"],
  instances: true,
  meter,
  answer: EMBEDDINGS_ANSWER,
  parts: (body) => countParts(body, ["input"]),
  retry: "safe",
  errors: "openai",
});
