/**
 * Which URLs alerts may be sent to: https on port 443 of a public host by its name. No address in any notation, no
 * credentials, no local name, not this gateway. What a name resolves to is checked where it is resolved.
 */
import { urlFault } from "../formats/public-url.ts";

const LONGEST_URL = 2_000;
/** A host of ASCII labels: other scripts in their ASCII form. */
const RECEIVER = /^https:\/\/([a-z0-9-]+(?:\.[a-z0-9-]+)+)(?::443)?(?:[/?][!-"$-[\]-~]*)?$/i;
const NUMBERS = /^(?:\d+|0x[\da-f]*)$/i;

/** `ownHost`: where this gateway is reached. `testOrigins`: origins that are taken as they are; tests set them. */
export function receiverFault(url: string, ownHost: string, testOrigins: readonly string[]): string | undefined {
  if (url.length > LONGEST_URL) return `must have at most ${LONGEST_URL} characters`;
  if (isTestUrl(url, testOrigins)) return undefined;
  const host = RECEIVER.exec(url)?.[1]?.toLowerCase();
  if (host === undefined)
    return "must be an https URL on port 443 with a host name, without user, password or fragment";
  if (NUMBERS.test(host.split(".").at(-1) ?? "")) return "must name its host, not give an address";
  if (urlFault(url) !== undefined) return "must name a public host";
  return host === hostName(ownHost) ? "must not be this gateway" : undefined;
}

/** Whether it is at an origin that tests opened. */
export const isTestUrl = (url: string, testOrigins: readonly string[]): boolean =>
  testOrigins.some((origin) => url === origin || url.startsWith(`${origin}/`));

/** The origins in a setting: separated by commas, without a path. */
export const originsIn = (setting: string): readonly string[] =>
  setting
    .split(",")
    .map((origin) => origin.trim().replace(/\/$/, ""))
    .filter((origin) => origin !== "");

const hostName = (host: string): string => host.toLowerCase().replace(/:\d+$/, "").replace(/\.$/, "");
