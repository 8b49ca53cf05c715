/**
 * The service's tokenizer: a token is the longest run of characters that fits four bytes of UTF-8.
 *
 * So a text has about bytes / 4 tokens, and cutting a completion after n tokens never splits a character. A prompt adds
 * the chat template: 3 tokens, and 6 for each message; a picture is 256. Without its pictures a prompt never counts
 * more than the bytes of its JSON body and 32.
 */
const TOKEN_BYTES = 4;
const TEMPLATE_TOKENS = 3;
const MESSAGE_TOKENS = 6;
export const IMAGE_TOKENS = 256;
const BODY_SLACK = 32;

const encoder = new TextEncoder();
export const byteLength = (text: string): number => encoder.encode(text).length;

/** The tokens of a text, as the pieces that a stream sends. */
export function tokensOf(text: string): string[] {
  const tokens: string[] = [];
  let token = "";
  let bytes = 0;
  for (const character of text) {
    const size = byteLength(character);
    if (bytes + size > TOKEN_BYTES && token !== "") {
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

/** Quick for long texts, where the pieces are not needed. */
export const countTokens = (text: string): number => Math.ceil(byteLength(text) / TOKEN_BYTES);

/** What a message weighs: its texts, its calls, and how many pictures it holds. */
export interface MessageWeight {
  readonly texts: readonly string[];
  readonly images: number;
}

export function promptTokens(messages: readonly MessageWeight[], extras: readonly string[], bodyBytes: number): number {
  let text = TEMPLATE_TOKENS;
  let images = 0;
  for (const message of messages) {
    text += MESSAGE_TOKENS + message.texts.reduce((sum, one) => sum + countTokens(one), 0);
    images += message.images;
  }
  text += extras.reduce((sum, one) => sum + countTokens(one), 0);
  return Math.min(text, bodyBytes + BODY_SLACK) + images * IMAGE_TOKENS;
}
