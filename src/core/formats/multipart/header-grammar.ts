/**
 * Parses header values with parameters, such as `form-data; name="file"`, strictly by the grammar of RFC 9110 (tokens,
 * quoted strings). Input that other readers repair, each in its own way, is refused.
 */
const TOKEN = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";
const PARAMETER = new RegExp(` *; *(${TOKEN})=(?:(${TOKEN})|"((?:[^"\\\\]|\\\\.)*)")`, "y");
const HEAD = new RegExp(`${TOKEN}(?:/${TOKEN})?`, "y");

export interface HeaderValue {
  /** The part before the parameters, in lower case: `form-data`, `audio/wav`. */
  readonly head: string;
  /** By name in lower case. Backslashes of quoted strings are kept. */
  readonly parameters: ReadonlyMap<string, string>;
}

const WHOLE_TOKEN = new RegExp(`^${TOKEN}$`);

export const isToken = (text: string): boolean => WHOLE_TOKEN.test(text);

/** Returns a string with the error if the value is invalid; `what` names the header in it. */
export function parseHeaderValue(text: string, what: string): HeaderValue | string {
  HEAD.lastIndex = 0;
  const head = HEAD.exec(text)?.[0];
  if (head === undefined) return `${what} is empty or malformed.`;
  const parameters = new Map<string, string>();
  for (let at = head.length; at < text.length; at = PARAMETER.lastIndex) {
    PARAMETER.lastIndex = at;
    const match = PARAMETER.exec(text);
    if (!match) return `${what} is malformed: write its parameters as \`; name=value\` or \`; name="value"\`.`;
    const [, name = "", token, quoted] = match;
    const key = name.toLowerCase();
    if (parameters.has(key)) return `${what} has \`${key}\` twice.`;
    parameters.set(key, token ?? quoted ?? "");
  }
  return { head: head.toLowerCase(), parameters };
}

/** The first parameter that is not in `known`. */
export const otherThan = ({ parameters }: HeaderValue, known: readonly string[]): string | undefined =>
  [...parameters.keys()].find((name) => !known.includes(name));
