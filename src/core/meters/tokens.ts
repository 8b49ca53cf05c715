/**
 * Tokens of text models. The bound: bytes of the body, an overhead for the model's prompt template, an allowance for
 * each part other than text, and the output cap. The reading: the upstream's usage figures, or own count if they are
 * missing or absurd.
 */
import { type Bound, continuing } from "../account/hold.ts";
import type { ModelRow } from "../pricing/prices.ts";
import { isCount, type Reading, type Usage } from "../pricing/usage.ts";
import type { Refusal } from "../refusal.ts";
import type { MeasuredBody, Sent } from "./meter.ts";
import type { Parts } from "./parts.ts";

/** Tokens that a model's prompt template may add, if its row gives no figure. */
const DEFAULT_PROMPT_OVERHEAD_TOKENS = 32;
/** The most tokens for one part other than text, if the row gives no figure. */
const DEFAULT_MAX_PART_TOKENS = 16_384;
/** Tokens that own count assumes for such a part, if the row gives no figure. */
const DEFAULT_PART_TOKENS = 256;
/** No model takes a longer prompt; without a context in the row, a figure above it is not plausible. */
const LONGEST_PROMPT_TOKENS = 10_000_000;

/** The request's own limits on its tokens. */
export interface TokenDemand {
  /** The smallest output cap in the request; undefined if there is none. */
  readonly outputCap: number | undefined;
  readonly choices: number;
}

/**
 * The most that a call can use: a token is at least one byte of the body. The row of a text model has an output limit.
 */
export function boundTokens(demand: TokenDemand, { sentBytes, parts }: MeasuredBody, row: ModelRow): Bound {
  const overhead = row.promptOverheadTokens ?? DEFAULT_PROMPT_OVERHEAD_TOKENS;
  const input = Math.min(sentBytes + overhead + mostOf(parts, row), row.contextTokens ?? Number.POSITIVE_INFINITY);
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

/** The request's limits for a model that only reads. */
export interface ReadingDemand {
  /** Sequences that the model reads; each has its own overhead and context. */
  readonly sequences: number;
  /** Tokens in addition to the body's bytes, e.g. a query that is read with each document; negative for fewer. */
  readonly extraTokens: number;
}

/** The most that a call to a model without output can use. */
export function boundReading(
  { sequences, extraTokens }: ReadingDemand,
  { sentBytes, parts }: MeasuredBody,
  row: ModelRow,
): Bound {
  const overhead = sequences * (row.promptOverheadTokens ?? DEFAULT_PROMPT_OVERHEAD_TOKENS);
  const context = sequences * (row.contextTokens ?? Number.POSITIVE_INFINITY);
  return { fixed: { input_tokens: Math.min(sentBytes + overhead + mostOf(parts, row) + extraTokens, context) } };
}

/**
 * An image is at most the row's `max_part_tokens`. A body does not say how long a video, a recording or a
 * file is, so such a part takes the model's whole context, or without one the row's `max_part_tokens`.
 */
function mostOf({ images, unbounded }: Parts, row: ModelRow): number {
  const most = row.contextTokens ?? row.maxPartTokens ?? LONGEST_PROMPT_TOKENS;
  return images * (row.maxPartTokens ?? DEFAULT_MAX_PART_TOKENS) + unbounded * most;
}

/** Refuses a part of unknown length if the row gives neither a context nor the most tokens per part. */
export function boundless({ unbounded }: Parts, row: ModelRow): Refusal | null {
  if (unbounded === 0 || row.contextTokens !== undefined || row.maxPartTokens !== undefined) return null;
  const message = "This model takes text and images only: no bound is known for video, audio, files and other parts.";
  return { kind: "invalid_request", message, param: null };
}

/** The only figure of a model that writes nothing, if it is plausible. */
export function believeInput(input: unknown): Usage | undefined {
  return isCount(input) && input <= LONGEST_PROMPT_TOKENS ? { input_tokens: input } : undefined;
}

/** The figures in one usage object, whatever its endpoint calls them. */
export interface TokenFigures {
  readonly input: unknown;
  readonly output: unknown;
  readonly cached: unknown;
}

/** An upstream's input figure below our own count divided by this is marked. */
const LOW_INPUT_SHARE = 10;

/**
 * Own count: what was sent, and what was written in the part of the answer that has passed. It settles a call whose
 * usage is unknown, and tells whether an upstream's figures are suspiciously low. It never exceeds the bound.
 */
export class OwnCount {
  readonly #inputTokens: number;
  readonly #sentTokens: number;
  readonly #mostOutput: number;
  #frames = 0;
  #bytes = 0;
  /** Whether figures came before the end, and content after the last of them. */
  #told: "no" | "up to here" | "before" = "no";

  /** `extraTokens`: tokens that the model reads in addition to the body's bytes; negative if they are fewer. */
  constructor(bound: Bound, sent: Sent<MeasuredBody>, extraTokens = 0) {
    const { row, measured, earlierTokens, outputCap } = sent;
    const { images, unbounded } = measured.parts;
    const parts = (images + unbounded) * (row.partTokens ?? DEFAULT_PART_TOKENS);
    this.#sentTokens = Math.ceil(measured.ownBytes / 4) + parts + extraTokens;
    const most = continuing(bound, earlierTokens, row.contextTokens).fixed.input_tokens ?? 0;
    // The default is for images; a part of unknown length counts as much as is held for it.
    const isUnknown = unbounded > 0 && row.partTokens === undefined;
    this.#inputTokens = isUnknown ? most : Math.min(this.#sentTokens + earlierTokens, most);
    this.#mostOutput = bound.output ? (outputCap ?? bound.output.cap) * bound.output.choices : 0;
  }

  /** Counts one frame with content, of this many UTF-8 bytes. */
  add(contentBytes: number): void {
    if (contentBytes === 0) return;
    this.#frames++;
    this.#bytes += contentBytes;
    if (this.#told === "up to here") this.#told = "before";
  }

  /** The upstream has told its figures so far. What it writes after them is not in them. */
  usageTold(): void {
    this.#told = "up to here";
  }

  /** Raises the count to the whole answer, of which a part may have been counted already. */
  atLeast(contentBytes: number): void {
    this.#bytes = Math.max(this.#bytes, contentBytes);
  }

  /** `exact`: the upstream's figures, if they are plausible. */
  reading(exact: Usage | undefined): Reading {
    const written = Math.max(this.#frames, Math.ceil(this.#bytes / 4));
    // Some engines tell figures at the beginning, or with each frame; a stream may be left after them.
    const isOvertaken = this.#told === "before" && written > (exact?.output_tokens ?? 0);
    if (exact && isOvertaken) {
      return { source: "own_count", usage: { ...exact, output_tokens: Math.min(written, this.#mostOutput) } };
    }
    if (exact) {
      // A conversation may be recorded at its upper bound, so it is left out here.
      const isLow = (exact.input_tokens ?? 0) * LOW_INPUT_SHARE < Math.min(this.#sentTokens, this.#inputTokens);
      return { source: "exact", usage: exact, ...(isLow && { lowInput: true as const }) };
    }
    const usage = { input_tokens: this.#inputTokens, output_tokens: Math.min(written, this.#mostOutput) };
    return { source: "own_count", usage };
  }
}

/** The upstream's figures if they are plausible; undefined otherwise. An explicit zero stays zero. */
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
    // A surrogate pair is two units and four bytes.
    if (code >= 0xd800 && code < 0xdc00 && (text.charCodeAt(at + 1) & 0xfc00) === 0xdc00) at++;
  }
  return bytes;
}
