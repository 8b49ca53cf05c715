/** Text of others on a terminal: names may hold codes that move the cursor, hide lines or turn the text around. */

/** Control characters, invisible formatting, lone surrogates, line and paragraph separators. */
const UNSAFE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

const escaped = (character: string): string => {
  const code = character.codePointAt(0) ?? 0;
  return code === 0x0a ? "\\n" : code === 0x09 ? "\\t" : `\\u{${code.toString(16)}}`;
};

export const safe = (text: string): string => text.replace(UNSAFE, escaped);

/** Text of several lines, such as a message; its line breaks stay. */
export const safeLines = (text: string): string => text.split("\n").map(safe).join("\n");

/** JSON in which nothing acts on a terminal, and which parses to the same. */
export function safeJson(value: unknown, indent = 2): string {
  const text = JSON.stringify(value, null, indent) ?? "null";
  // JSON.stringify has escaped line breaks within texts: those that are left are its own.
  return text.replace(UNSAFE, (character) =>
    character === "\n"
      ? character
      : [...Array(character.length).keys()]
          .map((at) => `\\u${character.charCodeAt(at).toString(16).padStart(4, "0")}`)
          .join(""),
  );
}

const KEY = /\b(sk-tg-|tg-op-|whsec_)[\w+/=-]{8,}/g;
/** What looks like a key or a token shows no more than its beginning. */
export const withoutKeys = (text: string): string => text.replace(KEY, "$1...");
