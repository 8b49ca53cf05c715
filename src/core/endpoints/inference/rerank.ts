/** Reranking (contract: POST /v1/rerank), charged by input tokens. The query counts once with each document. */
import * as z from "zod/mini";
import { asObject } from "../../formats/json-fields.ts";
import type { Meter } from "../../meters/meter.ts";
import { countParts } from "../../meters/parts.ts";
import { believeInput, boundReading, OwnCount, utf8Bytes } from "../../meters/tokens.ts";
import type { Usage } from "../../pricing/usage.ts";
import { characters } from "../../shapes.ts";
import { RERANK_ANSWER } from "../answer-names.ts";
import { json } from "../body.ts";
import { endpoint } from "../endpoint.ts";
import { OTHER_DATA } from "../inspection/callers-data.ts";
import { OTHER_INPUT, STREAMS } from "../inspection/refused.ts";
import { isString, list } from "../list.ts";

/** Tokens between a query and a document (docs/design.md, section 4). */
const PAIR_OVERHEAD_TOKENS = 8;
/** The same in own count. */
const OWN_PAIR_TOKENS = 4;

const RerankRequest = z.looseObject({
  model: characters(1, 256),
  query: z.string().check(z.minLength(1)),
  documents: list(z.string(), { least: 1, most: 1000, plain: isString }),
  top_n: z.nullish(z.int().check(z.minimum(1))),
  return_documents: z.nullish(z.boolean()),
});
type Rerank = z.infer<typeof RerankRequest>;

const meter: Meter<Rerank> = {
  bound: ({ documents, query }, measured, row) =>
    boundReading(
      {
        sequences: documents.length,
        extraTokens: documents.length * (utf8Bytes(query) + PAIR_OVERHEAD_TOKENS),
      },
      measured,
      row,
    ),
  reader: (body, sent) => {
    const { documents, query } = body;
    // The body contains the query once, but the model reads it with each document.
    const again = (documents.length - 1) * Math.ceil(utf8Bytes(query) / 4) + documents.length * OWN_PAIR_TOKENS;
    const own = new OwnCount(meter.bound(body, sent.measured, sent.row), sent, again);
    let exact: Usage | undefined;
    return {
      kind: "json",
      read(answer) {
        const ranking = asObject(answer);
        if (!Array.isArray(ranking?.results)) return false;
        exact = believeInput(asObject(ranking.usage)?.total_tokens);
        return true;
      },
      reading: () => own.reading(exact),
    };
  },
};

export const rerank = endpoint({
  id: "rerank",
  method: "POST",
  path: "/v1/rerank",
  summary: "Documents in order of their relevance to a query",
  scope: "inference",
  flow: { kind: "forwarded" },
  body: json(RerankRequest, { data: OTHER_DATA, refused: new Map([...OTHER_INPUT, ...STREAMS]) }),
  model: "model",
  kinds: ["rerank"],
  instances: true,
  meter,
  answer: RERANK_ANSWER,
  parts: (body) => countParts(body, ["query", "documents"]),
  retry: "safe",
  errors: "openai",
});
