/** What a mistyped word may have meant. */
import { edits } from "../src/core/issue-words.ts";

/** Words that are compared letter by letter. */
const LONGEST = 60;

export function meant(written: string, names: readonly string[]): string | undefined {
  const word = written.slice(0, LONGEST).toLowerCase();
  const ranked = names
    .map((name) => ({ name, away: name.startsWith(word) && word.length > 1 ? 0.5 : edits(word, name.toLowerCase()) }))
    .sort((one, other) => one.away - other.away);
  const [best] = ranked;
  return best !== undefined && best.away <= Math.max(best.name.length < 4 ? 1 : 2, Math.floor(best.name.length / 3))
    ? best.name
    : undefined;
}

/** ` Did you mean x?`, or nothing. */
export function hint(written: string, names: readonly string[], mark = ""): string {
  const name = meant(written, names);
  return name === undefined ? "" : ` Did you mean ${mark}${name}?`;
}
