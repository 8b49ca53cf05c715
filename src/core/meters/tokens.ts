/**
 * Tokens of text models. Bound: bytes of the body, an overhead for the model's prompt template, an allowance for each
 * part that is not text; output by the cap. Reading: the upstream's usage figures, or our own count where they are
 * missing or absurd.
 */
import type { Bound } from "../hold.ts";
import type { ModelRow } from "../prices.ts";
import { isCount, type Reading, type Usage } from "../usage.ts";

/** Tokens that a model's prompt template may add, unless its row says. */
export const DEFAULT_PROMPT_OVERHEAD_TOKENS = 32;
/** Tokens that one image or other part may come to, unless the row says. */
export const DEFAULT_MAX_PART_TOKENS = 16_384;
/** No model takes a longer prompt; a figure above it is absurd where the row names no context. */
const LONGEST_PROMPT_TOKENS = 10_000_000;

/** What a body asks for that bounds its tokens. */
export interface TokenDemand {
  /** Parts that are not text. */
  readonly otherParts: number;
  /** The least output cap given; undefined where there is none. */
  readonly outputCap: number | undefined;
  readonly choices: number;
}

/** The true upper bound: a token is never less than a byte of what is sent. The row of a text model has an output limit. */
export function boundTokens(demand: TokenDemand, sentBytes: number, row: ModelRow): Bound {
  const overhead = row.promptOverheadTokens ?? DEFAULT_PROMPT_OVERHEAD_TOKENS;
  const parts = demand.otherParts * (row.maxPartTokens ?? DEFAULT_MAX_PART_TOKENS);
  const input = Math.min(sentBytes + overhead + parts, row.contextTokens ?? Number.POSITIVE_INFINITY);
  const rowCap = row.maxOutputTokens ?? 0;
  return {
    fixed: { input_tokens: input },
    output: {
      cap: Math.min(demand.outputCap ?? rowCap, rowCap),
      choices: demand.choices,
      lowerable: demand.outputCap === undefined,
    },
  };
}

/** What a body asks for that bounds the tokens of a model that only reads. */
export interface ReadingDemand {
  /** Sequences that the model reads: each has an overhead and a context of its own. */
  readonly sequences: number;
  /** Tokens beyond the bytes of the body, e.g. a query that is read with each document. */
  readonly extraTokens: number;
}

/** The true upper bound of a model that writes nothing. */
export function boundReading({ sequences, extraTokens }: ReadingDemand, sentBytes: number, row: ModelRow): Bound {
  const overhead = sequences * (row.promptOverheadTokens ?? DEFAULT_PROMPT_OVERHEAD_TOKENS);
  const context = sequences * (row.contextTokens ?? Number.POSITIVE_INFINITY);
  return { fixed: { input_tokens: Math.min(sentBytes + overhead + extraTokens, context) } };
}

/** The one figure of a model that only reads, where it can be believed. */
export function believeInput(input: unknown): Usage | undefined {
  return isCount(input) && input <= LONGEST_PROMPT_TOKENS ? { input_tokens: input } : undefined;
}

/** The figures of one usage object, by the names its endpoint uses. */
export interface TokenFigures {
  readonly input: unknown;
  readonly output: unknown;
  readonly cached: unknown;
}

/** What our own count rests on, gathered while the answer passes. */
export class OwnCount {
  #frames = 0;
  #bytes = 0;
  readonly #inputTokens: number;

  /** `promptBytes`: UTF-8 bytes of the message texts. */
  constructor(promptBytes: number) {
    this.#inputTokens = Math.ceil(promptBytes / 4);
  }

  /** One frame that carried content, and the UTF-8 bytes of it. */
  add(contentBytes: number): void {
    if (contentBytes === 0) return;
    this.#frames++;
    this.#bytes += contentBytes;
  }

  reading(): Reading {
    return {
      source: "own_count",
      usage: {
        input_tokens: this.#inputTokens,
        output_tokens: Math.max(this.#frames, Math.ceil(this.#bytes / 4)),
      },
    };
  }
}

/** The upstream's figures where they can be believed; undefined otherwise. An explicit zero stays zero. */
export function believe(figures: TokenFigures, row: ModelRow, outputCap: number): Usage | undefined {
  const { input, output } = figures;
  const cached = figures.cached ?? 0;
  if (!isCount(input) || !isCount(output) || !isCount(cached)) return undefined;
  if (output > outputCap || cached > input || input > (row.contextTokens ?? LONGEST_PROMPT_TOKENS)) return undefined;
  return { input_tokens: input, output_tokens: output, ...(cached > 0 && { cached_input_tokens: cached }) };
}

/** UTF-8 bytes of a text, without encoding it. */
export function utf8Bytes(text: string): number {
  let bytes = text.length;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code < 0x80) continue;
    bytes += code < 0x800 ? 1 : 2;
    // A pair is four bytes in two units.
    if (code >= 0xd800 && code < 0xdc00 && (text.charCodeAt(at + 1) & 0xfc00) === 0xdc00) at++;
  }
  return bytes;
}
