/** Token counts of embeddings and rankings. Pure. */
import { countTokens, tokenizerOf } from "../chat/tokens.ts";

/** Tokens that join a query and a document. */
const PAIR_TOKENS = 3;

/** Each input is a text, or the tokens of one. */
export const embeddedTokens = (inputs: readonly (string | readonly number[])[], model: string): number =>
  inputs.reduce(
    (sum, input) => sum + (typeof input === "string" ? countTokens(input, tokenizerOf(model)) : input.length),
    0,
  );

/** The query is read with each document. */
export function rankedTokens(query: string, documents: readonly string[], model: string): number {
  const tokenizer = tokenizerOf(model);
  const perPair = countTokens(query, tokenizer) + PAIR_TOKENS;
  return documents.reduce((sum, document) => sum + countTokens(document, tokenizer) + perPair, 0);
}
