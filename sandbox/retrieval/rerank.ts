/** `POST /v1/rerank`: BM25 over the submitted documents, scaled to between 0 and 1. */
import { z } from "zod";
import { readJson } from "../body.ts";
import type { Endpoint } from "../endpoint.ts";
import { done } from "../refusal.ts";
import { rankedTokens } from "./tokens.ts";

const K1 = 1.2;
const B = 0.75;
const RerankRequest = z.looseObject({
  model: z.string().min(1),
  query: z.string().min(1),
  documents: z.array(z.string()).min(1).max(1_000),
  top_n: z.int().min(1).nullish(),
  return_documents: z.boolean().nullish(),
});

export const rerank: Endpoint = {
  method: "POST",
  path: "/v1/rerank",
  errors: "openai",
  prepare: (received) => {
    const read = readJson(received, RerankRequest);
    if (!read.ok) return read;
    const { model, query, documents, top_n, return_documents } = read.value;
    const tokens = rankedTokens(query, documents, model);
    return done({
      model,
      kinds: ["rerank"],
      executes: true,
      answer: () => ({
        kind: "json",
        body: {
          results: rank(query, documents)
            .slice(0, top_n ?? documents.length)
            .map(({ index, relevance_score }) => ({
              index,
              relevance_score,
              ...(return_documents && { document: { text: documents[index] ?? "" } }),
            })),
          model,
          usage: { total_tokens: tokens },
        },
        usage: { input_tokens: tokens },
      }),
    });
  },
};

/** Best first; equal scores keep the order of the request. */
function rank(query: string, documents: readonly string[]): { index: number; relevance_score: number }[] {
  const bags = documents.map(wordsOf);
  const average = bags.reduce((sum, words) => sum + words.length, 0) / bags.length || 1;
  const terms = new Set(wordsOf(query));
  const scores = bags.map(() => 0);
  for (const term of terms) {
    const counts = bags.map((words) => words.filter((word) => word === term).length);
    const holding = counts.filter((count) => count > 0).length;
    const rarity = Math.log(1 + (bags.length - holding + 0.5) / (holding + 0.5));
    for (const [index, count] of counts.entries()) {
      const length = (bags[index]?.length ?? 0) / average;
      scores[index] = (scores[index] ?? 0) + (rarity * count * (K1 + 1)) / (count + K1 * (1 - B + B * length));
    }
  }
  return scores
    .map((score, index) => ({ index, relevance_score: score / (score + 1) }))
    .sort((a, b) => b.relevance_score - a.relevance_score || a.index - b.index);
}

const wordsOf = (text: string): string[] => text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
