/**
 * Whether what an echo service answered shows that pods do not get our key. The echo may write the headers that it got
 * in any form, so its whole answer is searched: all names and all texts.
 */

/** `no_marker`: the marker did not come, so nothing is shown. `key_arrived`: a pod can read a key of the operator's. */
export type EchoFault = "no_marker" | "key_arrived";

/** Headers that only a credential of ours could have caused: the check sends none. */
const CREDENTIAL_NAME = /authorization|api[-_]?key|x-auth/i;

/** `echoed`: parsed JSON. `keys`: all that the upstream has of ours. Null: nothing is wrong. */
export function echoFault(echoed: unknown, marker: string, keys: readonly string[]): EchoFault | null {
  const telltales = keys.flatMap((key) => [key, encodeURIComponent(key)]);
  let found = false;
  for (const text of textsOf(echoed)) {
    if (CREDENTIAL_NAME.test(text) || telltales.some((telltale) => text.includes(telltale))) return "key_arrived";
    found ||= text.includes(marker);
  }
  return found ? null : "no_marker";
}

function* textsOf(value: unknown): Generator<string> {
  const left: unknown[] = [value];
  while (left.length > 0) {
    const next = left.pop();
    if (typeof next === "string") yield next;
    else if (Array.isArray(next)) left.push(...next);
    else if (typeof next === "object" && next !== null) {
      for (const [name, inner] of Object.entries(next)) left.push(name, inner);
    }
  }
}
