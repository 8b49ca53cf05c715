/** The language model: words drawn by a seed, marked with the model and region that made them. */
import { numbersFrom } from "../seed.ts";
import { COMMON, type Tokenizer, tokensOf } from "./tokens.ts";

const WORDS = [
  "the", "toll", "road", "runs", "past", "señal", "and", "over", "a", "bridge", "where", "carts", "wait", "for",
  "morning", "light", "→", "keeper", "counts", "every", "coin", "twice", "naïve", "traders", "smile", "rain", "falls",
  "on", "stone", "🚧", "then", "gates", "open", "again",
]; // biome-ignore format: a list of words

/** `[llama-7b:1042@us-east-1]`: shows which target served, and whether two answers were mixed. */
export const markerOf = (model: string, region: string): string => `[${model}@${region}]`;

/** The marker, then prose, exactly `count` tokens in all. */
export function prose(marker: string, seed: number, count: number, tokenizer: Tokenizer = COMMON): string {
  const next = numbersFrom(seed);
  const parts = [marker];
  let bytes = marker.length;
  // Enough words for certain: a token has at most four bytes.
  while (bytes < count * 4 + 8) {
    const word = WORDS[Math.floor(next() * WORDS.length)] ?? "toll";
    parts.push(word);
    bytes += word.length + 1;
  }
  return tokensOf(parts.join(" "), tokenizer).slice(0, count).join("");
}
