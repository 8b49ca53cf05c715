/** Names by a pattern: `*` stands for any text, `?` for one character; commas between several patterns. */

/** In linear time: each `*` takes as little as it can, and is only ever moved on. */
export function matches(pattern: string, name: string): boolean {
  const signs = [...pattern];
  const letters = [...name];
  let sign = 0;
  let letter = 0;
  let star = -1;
  let resume = 0;
  while (letter < letters.length) {
    if (signs[sign] === "*") {
      star = sign++;
      resume = letter;
    } else if (sign < signs.length && (signs[sign] === "?" || signs[sign] === letters[letter])) {
      sign++;
      letter++;
    } else if (star >= 0) {
      sign = star + 1;
      letter = ++resume;
    } else {
      return false;
    }
  }
  while (signs[sign] === "*") sign++;
  return sign === signs.length;
}

export const matchesAny = (patterns: string, name: string): boolean =>
  patterns
    .split(",")
    .map((pattern) => pattern.trim())
    .some((pattern) => pattern !== "" && matches(pattern, name));
