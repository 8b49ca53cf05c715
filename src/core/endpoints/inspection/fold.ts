/**
 * Folds names the way the most lenient parser would match them. Go's encoding/json and .NET ignore case (the Kelvin
 * sign is a k, the long s an s), Java also reads a dotless i as i, protobuf's JSON and pydantic aliases take
 * `maxTokens` for `max_tokens`, PHP turns dots and spaces of form fields into underscores. So two names are equal if
 * their letters and digits are, after NFKC and case folding. Known names are ASCII; other letters are kept.
 */

/** Known names are much shorter, so a longer name cannot match one. */
const LONGEST_NAME = 128;

/** What each ASCII character folds to; 0 if it is dropped. */
const ASCII = Uint8Array.from({ length: 128 }, (_, code) => {
  const char = String.fromCharCode(code).toLowerCase();
  return /[a-z0-9]/.test(char) ? char.charCodeAt(0) : 0;
});

/** Unicode blocks with characters that NFKC and case folding turn into ASCII letters or digits. */
const BLOCKS: readonly (readonly [number, number])[] = [
  [0x80, 0x2fff],
  [0x3000, 0x33ff],
  [0xa700, 0xa7ff],
  [0xfb00, 0xfb06],
  [0xfe00, 0xfe0f],
  [0xfeff, 0xffef],
  [0x10780, 0x107bf],
  [0x1ccd6, 0x1ccf9],
  [0x1d400, 0x1d7ff],
  [0x1f100, 0x1f1ff],
  [0x1fbf0, 0x1fbf9],
];
/** Invisible, or combined with the letter before it: not a letter of its own. */
const NO_LETTER = /[\p{M}\p{Cf}\p{Z}\p{P}]/u;

let table: ReadonlyMap<number, string> | undefined;

/** What a non-ASCII character folds to: ASCII, nothing, or undefined if it is a letter of its own. */
function foldOther(code: number): string | undefined {
  table ??= new Map(BLOCKS.flatMap(([first, last]) => foldsOf(first, last)));
  return table.get(code);
}

function foldsOf(first: number, last: number): [number, string][] {
  const folds: [number, string][] = [];
  for (let code = first; code <= last; code++) {
    const char = String.fromCodePoint(code);
    // Upper case first: it maps i, dotless i and dotted I to one letter, and also s and long s.
    const folded = char.normalize("NFKC").toUpperCase().toLowerCase().normalize("NFKC").toLowerCase();
    const kept = folded.replace(/[^\p{L}\p{N}]+/gu, "");
    if (/^[a-z0-9]+$/.test(kept)) folds.push([code, kept]);
    else if (kept === "" && NO_LETTER.test(char)) folds.push([code, ""]);
  }
  return folds;
}

/** The folded form of a name. Idempotent. */
export function fold(name: string): string {
  if (name.length > LONGEST_NAME) return name;
  let folded = "";
  for (const char of name) {
    const code = char.codePointAt(0) as number;
    if (code >= 0x80) folded += foldOther(code) ?? char;
    else if (ASCII[code]) folded += String.fromCharCode(ASCII[code] as number);
  }
  return folded;
}

const packed = (ending: string): number => [...ending].reduce((bits, char) => (bits << 8) | char.charCodeAt(0), 0);
const THREE = new Set(["url", "uri"].map(packed));
const FOUR = new Set(["urls", "uris", "href", "refs"].map(packed));

/**
 * Quickly rules out names that fold to none of a list and do not end like the name of a URL, without allocating. A body
 * may hold 250,000 names. A name that passes needs a closer look; it may be a false positive.
 */
export class FoldFilter {
  readonly #hashes: ReadonlySet<number>;

  constructor(folded: Iterable<string>) {
    this.#hashes = new Set(Array.from(folded, (name) => sketch(name).hash));
  }

  passes(name: string): boolean {
    if (name.length > LONGEST_NAME) return true;
    const { hash, tail } = sketch(name);
    return this.#hashes.has(hash) || THREE.has(tail & 0xffffff) || FOUR.has(tail);
  }
}

interface Sketch {
  hash: number;
  /** The last four letters, packed. */
  tail: number;
}

/** FNV-1a hash and tail of a folded name. */
function sketch(name: string): Sketch {
  const drawn: Sketch = { hash: 0x811c9dc5, tail: 0 };
  for (let at = 0; at < name.length; at++) {
    const code = name.codePointAt(at) as number;
    if (code < 0x80) {
      draw(drawn, ASCII[code] as number);
      continue;
    }
    if (code > 0xffff) at++;
    const folded = foldOther(code);
    if (folded === undefined) draw(drawn, code);
    else for (let index = 0; index < folded.length; index++) draw(drawn, folded.charCodeAt(index));
  }
  return drawn;
}

function draw(drawn: Sketch, code: number): void {
  if (code === 0) return;
  drawn.hash = Math.imul(drawn.hash ^ code, 0x01000193);
  if (code > 0x39) drawn.tail = (drawn.tail << 8) | code;
}
