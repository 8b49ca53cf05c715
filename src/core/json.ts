/**
 * JSON as the gateway accepts it: UTF-8, at most `MAX_DEPTH` deep, every number one that survives being read and written
 * again. Anything else is refused with words that tell where, so that no value reaches an upstream changed.
 */
export const MAX_DEPTH = 64;

export type ParsedJson = { ok: true; value: unknown } | { ok: false; message: string };

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Duplicate keys: the last one wins. Never throws. */
export function parseJson(bytes: Uint8Array): ParsedJson {
  let text: string;
  try {
    text = utf8.decode(bytes);
  } catch {
    return { ok: false, message: "The request body is not valid UTF-8." };
  }
  const refused = scan(text);
  if (refused) return { ok: false, message: refused };
  try {
    return { ok: true, value: JSON.parse(text) };
  } catch {
    return { ok: false, message: "The request body is not valid JSON." };
  }
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const MINUS = 0x2d;

/** Depth and numbers, in one pass and before anything is built. Grammar is left to `JSON.parse`. */
function scan(text: string): string | undefined {
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      at = endOfString(text, at);
    } else if (code === 0x7b || code === 0x5b) {
      if (++depth > MAX_DEPTH) return `The request body is nested deeper than ${MAX_DEPTH} levels.`;
    } else if (code === 0x7d || code === 0x5d) {
      depth--;
    } else if (code === MINUS || isDigit(code)) {
      const end = endOfNumber(text, at);
      if (!survives(text.slice(at, end))) {
        return `The number at position ${at} of the request body is too large to be kept exactly; send it as text.`;
      }
      at = end - 1;
    }
  }
  return undefined;
}

const isDigit = (code: number): boolean => code >= 0x30 && code <= 0x39;

/** The closing quote of the string that opens at `open`; jumps, because a data URL may be megabytes long. */
function endOfString(text: string, open: number): number {
  for (let quote = text.indexOf('"', open + 1); quote !== -1; quote = text.indexOf('"', quote + 1)) {
    let before = quote;
    while (text.charCodeAt(before - 1) === BACKSLASH) before--;
    if ((quote - before) % 2 === 0) return quote;
  }
  return text.length;
}

function endOfNumber(text: string, start: number): number {
  let end = start + 1;
  for (; end < text.length; end++) {
    const code = text.charCodeAt(end);
    // digits + - . e E
    if (!isDigit(code) && code !== 0x2b && code !== MINUS && code !== 0x2e && code !== 0x65 && code !== 0x45) break;
  }
  return end;
}

function survives(token: string): boolean {
  const value = Number(token);
  if (Number.isNaN(value)) return true; // not a number: the grammar's business
  if (!Number.isFinite(value)) return false;
  return !/^-?\d+$/.test(token) || Number.isSafeInteger(value);
}
