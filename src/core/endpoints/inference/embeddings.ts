/** Embeddings (contract: POST /v1/embeddings), charged by input tokens. */
import * as z from "zod/mini";
import { asObject } from "../../formats/json-fields.ts";
import type { Meter } from "../../meters/meter.ts";
import { countParts } from "../../meters/parts.ts";
import { believeInput, boundReading, OwnCount, utf8Bytes } from "../../meters/tokens.ts";
import type { Usage } from "../../pricing/usage.ts";
import { characters } from "../../shapes.ts";
import { EMBEDDINGS_ANSWER } from "../answer-names.ts";
import { json } from "../body.ts";
import { endpoint } from "../endpoint.ts";
import { OTHER_DATA } from "../inspection/callers-data.ts";
import { OTHER_INPUT, STREAMS } from "../inspection/refused.ts";
import { isString, list } from "../list.ts";

/** A text may come as token numbers: LangChain for Python sends them by default. */
const isToken = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0;
const isTokens = (value: unknown): boolean => Array.isArray(value) && value.length > 0 && value.every(isToken);
const Tokens = list(z.int().check(z.minimum(0)), { least: 1, plain: isToken });

const EmbeddingsRequest = z.looseObject({
  model: characters(1, 256),
  input: z.union(
    [
      z.string().check(z.minLength(1)),
      list(z.string(), { least: 1, plain: isString }),
      Tokens,
      list(Tokens, { least: 1, plain: isTokens }),
    ],
    "must be a text, an array of texts, an array of tokens or an array of arrays of tokens",
  ),
  encoding_format: z.nullish(z.enum(["float", "base64"])),
  user: z.nullish(z.string()),
});
type Embeddings = z.infer<typeof EmbeddingsRequest>;

/** The number of tokens in each sequence; null for texts, whose tokens are not known. */
function tokenCounts({ input }: Embeddings): readonly number[] | null {
  if (typeof input === "string" || typeof input[0] === "string") return null;
  return typeof input[0] === "number" ? [input.length] : (input as number[][]).map((tokens) => tokens.length);
}

const sequences = ({ input }: Embeddings): number =>
  typeof input === "string" || typeof input[0] === "number" ? 1 : input.length;

const sum = (counts: readonly number[]): number => counts.reduce((total, count) => total + count, 0);

/** What to add to the body's bytes so that token lists count by tokens instead of the digits of their numbers. */
function tokensForBytes(body: Embeddings, most = Number.POSITIVE_INFINITY): number {
  const counts = tokenCounts(body);
  return counts ? sum(counts.map((count) => Math.min(count, most))) - JSON.stringify(body.input).length : 0;
}

/** Fields whose text the model does not read. */
const SETTINGS: ReadonlySet<string> = new Set([
  ...["model", "input", "encoding_format", "dimensions", "user", "safety_identifier", "prompt_cache_key"],
]);

/** The same for own count, which is exact here: only fields that may add text count by their bytes. */
function ownTokensForBytes(body: Embeddings, ownBytes: number): number {
  const counts = tokenCounts(body);
  if (!counts) return 0;
  const others = Object.entries(body).filter(([name]) => !SETTINGS.has(name));
  const otherBytes = others.length > 0 ? utf8Bytes(JSON.stringify(Object.fromEntries(others))) : 0;
  return sum(counts) + Math.ceil(otherBytes / 4) - Math.ceil(ownBytes / 4);
}

const meter: Meter<Embeddings> = {
  bound: (body, measured, row) =>
    boundReading({ sequences: sequences(body), extraTokens: tokensForBytes(body, row.contextTokens) }, measured, row),
  reader: (body, sent) => {
    const extraTokens = ownTokensForBytes(body, sent.measured.ownBytes);
    const own = new OwnCount(meter.bound(body, sent.measured, sent.row), sent, extraTokens);
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
  body: json(EmbeddingsRequest, { data: OTHER_DATA, refused: new Map([...OTHER_INPUT, ...STREAMS]) }),
  model: "model",
  kinds: ["embedding"],
  instances: true,
  meter,
  answer: EMBEDDINGS_ANSWER,
  parts: (body) => countParts(body, ["input"]),
  retry: "safe",
  errors: "openai",
});
