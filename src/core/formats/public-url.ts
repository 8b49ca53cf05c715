/**
 * Checks URLs that an engine will fetch for a tenant. Only https URLs with a public host are accepted, so that no
 * tenant can reach the operator's or the service's network through an engine. Only the form is checked: the gateway
 * neither fetches the URL nor resolves its name, so a name that resolves to a private address passes.
 */

/** `https://host[:port][path]` without white space, backslashes or control characters. */
const HTTPS_URL = /^https:\/\/([^/?#\s\\]+)(?:[/?#][^\s\\]*)?$/iu;
const PORT = /:(\d{1,5})$/;
/** One label of a host name: letters and digits of any script, hyphens inside. */
const LABEL = /^[\p{L}\p{N}](?:[\p{L}\p{M}\p{N}-]{0,61}[\p{L}\p{M}\p{N}])?$/u;
const QUAD = /^(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?!$)|$)){4}$/;
/**
 * Names that are only valid on a machine, in a cluster or in a home network; the last one is a cloud's metadata
 * service.
 */
const PRIVATE_ENDINGS =
  "localhost local internal intranet lan home.arpa localdomain corp home private svc default consul metadata.goog".split(
    " ",
  );
/** Refused, because resolvers drop these characters and would see a different name. */
const DROPPED = /\p{Default_Ignorable_Code_Point}/u;

/** Addresses outside the public internet: [first address, number of leading bits]. */
const PRIVATE_V4: readonly (readonly [string, number])[] = [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  // Azure's platform services, as seen from its machines.
  ["168.63.129.16", 32],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.0.2.0", 24],
  ["192.168.0.0", 16],
  ["198.18.0.0", 15],
  ["198.51.100.0", 24],
  ["203.0.113.0", 24],
  ["224.0.0.0", 3],
];

/** A host has at most 253 letters; the rest is for ports and brackets. Limits the cost of NFKC. */
const LONGEST_AUTHORITY = 300;

/** What is wrong with a URL, for the error message; undefined if nothing. */
export function urlFault(url: string): string | undefined {
  if (/^data:/i.test(url) || !url.includes("://")) {
    return "must be a publicly downloadable https URL; base64 payloads are not accepted";
  }
  const authority = HTTPS_URL.exec(url)?.[1];
  if (authority === undefined) return "must be an https URL without spaces";
  if (authority.length > LONGEST_AUTHORITY) return "must name a public host";
  if (authority.includes("@")) return "must not carry a user name or password";
  if (DROPPED.test(authority)) return "must name a public host";
  const port = PORT.exec(authority);
  if (port && (Number(port[1]) === 0 || Number(port[1]) > 65_535)) return "must have a port from 1 to 65535";
  // Normalized like in a resolver: other forms of the same letters are the same name.
  const host = authority.replace(PORT, "").normalize("NFKC").toLowerCase().replace(/\.$/, "");
  return isPublicHost(host) ? undefined : "must name a public host";
}

/** Whether an address, as a resolver gives it, is on the public internet. */
export const isPublicAddress = (address: string): boolean =>
  QUAD.test(address) ? isPublicV4(address) : isPublicV6(address.toLowerCase());

function isPublicHost(host: string): boolean {
  if (host.startsWith("[")) return host.endsWith("]") && isPublicV6(host.slice(1, -1));
  if (QUAD.test(host)) return isPublicV4(host);
  const labels = host.split(".");
  // If the last label has no letter, the host is an IPv4 address in some notation: 127.1, 0x7f.1, 2130706433.
  const last = labels.at(-1) ?? "";
  if (labels.length < 2 || host.length > 253 || /^(?:\p{N}+|0x[\da-f]*)$/u.test(last)) return false;
  if (!labels.every((label) => LABEL.test(label))) return false;
  return !PRIVATE_ENDINGS.some((ending) => host === ending || host.endsWith(`.${ending}`));
}

const bitsOf = (quad: string): number => quad.split(".").reduce((bits, part) => bits * 256 + Number(part), 0);

function isPublicV4(quad: string): boolean {
  const bits = bitsOf(quad);
  return !PRIVATE_V4.some(([first, length]) => {
    const size = 2 ** (32 - length);
    return Math.floor(bits / size) === Math.floor(bitsOf(first) / size);
  });
}

/** Global unicast only, without documentation addresses and the forms that embed an IPv4 address. */
function isPublicV6(address: string): boolean {
  if (!/^[\da-f:]{2,39}$/.test(address)) return false;
  const [first = "", second = ""] = address.split(":");
  const head = Number.parseInt(first || "0", 16);
  if (head < 0x2000 || head > 0x3fff || head === 0x2002) return false;
  const next = Number.parseInt(second || "0", 16);
  return !(head === 0x2001 && (next < 0x200 || next === 0xdb8));
}
