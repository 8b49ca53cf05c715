/**
 * The service's tokenizers. A token is the longest run of characters that fits four bytes of UTF-8, or two for models
 * named `glyph-`, which stand for languages that a vocabulary covers badly.
 *
 * So a text has about bytes / 4 tokens, and cutting a completion after n tokens never splits a character. A prompt is
 * everything that the chat template writes: 3 tokens, 6 for each message, its texts and calls, and the tools. A picture
 * is 256 tokens, or 512.
 */
export interface Tokenizer {
  readonly tokenBytes: number;
  readonly imageTokens: number;
}
export const COMMON: Tokenizer = { tokenBytes: 4, imageTokens: 256 };
const GLYPHS: Tokenizer = { tokenBytes: 2, imageTokens: 512 };

/** By the name of a model or an instance. */
export const tokenizerOf = (model: string): Tokenizer => (model.startsWith("glyph-") ? GLYPHS : COMMON);

const TEMPLATE_TOKENS = 3;
const MESSAGE_TOKENS = 6;

const encoder = new TextEncoder();
const byteLength = (text: string): number => encoder.encode(text).length;

/** The tokens of a text, as the pieces that a stream sends. */
export function tokensOf(text: string, { tokenBytes }: Tokenizer): string[] {
  const tokens: string[] = [];
  let token = "";
  let bytes = 0;
  for (const character of text) {
    const size = byteLength(character);
    if (bytes + size > tokenBytes && token !== "") {
      tokens.push(token);
      token = "";
      bytes = 0;
    }
    token += character;
    bytes += size;
  }
  if (token !== "") tokens.push(token);
  return tokens;
}

/** Fast for long texts when the pieces are not needed. */
export const countTokens = (text: string, { tokenBytes }: Tokenizer): number =>
  Math.ceil(byteLength(text) / tokenBytes);

/** A message as it is counted: its texts, its calls and its number of pictures. Empty messages are left out. */
export interface MessageWeight {
  readonly texts: readonly string[];
  readonly images: number;
}

export function promptTokens(
  messages: readonly MessageWeight[],
  extras: readonly string[],
  tokenizer: Tokenizer,
): number {
  const textTokens = (texts: readonly string[]) => texts.reduce((sum, text) => sum + countTokens(text, tokenizer), 0);
  let tokens = TEMPLATE_TOKENS + textTokens(extras);
  for (const { texts, images } of messages) {
    if (texts.length === 0 && images === 0) continue;
    tokens += MESSAGE_TOKENS + textTokens(texts) + images * tokenizer.imageTokens;
  }
  return tokens;
}
