/** Reranking (contract: POST /v1/rerank): charged by the tokens that were read, the query once with each document. */
import * as z from "zod";
import { asObject } from "../meters/answer-fields.ts";
import type { Meter } from "../meters/meter.ts";
import { believeInput, boundReading, OwnCount, utf8Bytes } from "../meters/tokens.ts";
import type { Usage } from "../usage.ts";
import { RERANK_ANSWER } from "./answer-names.ts";
import { json } from "./body.ts";
import { OTHER_DATA } from "./callers-data.ts";
import { endpoint } from "./endpoint.ts";
import { isString, list } from "./list.ts";
import { OTHER_INPUT } from "./refused.ts";

/** Tokens between a query and a document (design section 4). */
const PAIR_OVERHEAD_TOKENS = 8;

export const RerankRequest = z.looseObject({
  model: z.string().min(1).max(256),
  query: z.string().min(1),
  documents: list(z.string(), { least: 1, most: 1000, plain: isString }),
  top_n: z.int().min(1).nullish(),
  return_documents: z.boolean().nullish(),
});
type Rerank = z.infer<typeof RerankRequest>;

const meter: Meter<Rerank> = {
  bound: ({ documents, query }, { sentBytes }, row) =>
    boundReading(
      {
        sequences: documents.length,
        extraTokens: documents.length * (utf8Bytes(query) + PAIR_OVERHEAD_TOKENS),
      },
      sentBytes,
      row,
    ),
  reader: ({ documents, query }) => {
    const own = new OwnCount(documents.reduce((sum, document) => sum + utf8Bytes(document), utf8Bytes(query)));
    let exact: Usage | undefined;
    return {
      kind: "json",
      read(answer) {
        const ranking = asObject(answer);
        if (!Array.isArray(ranking?.results)) return false;
        exact = believeInput(asObject(ranking.usage)?.total_tokens);
        return true;
      },
      reading: () => (exact ? { source: "exact", usage: exact } : own.reading()),
    };
  },
};

export const rerank = endpoint({
  id: "rerank",
  method: "POST",
  path: "/v1/rerank",
  summary: "Documents in order of their relevance to a query",
  body: json(RerankRequest, { data: OTHER_DATA, refused: OTHER_INPUT }),
  model: "model",
  kinds: ["rerank"],
  instances: true,
  meter,
  answer: RERANK_ANSWER,
  retry: "safe",
  errors: "openai",
});
