/**
 * URLs that an engine fetches for a tenant. Only the form is judged: the gateway fetches no URL that a tenant names, and
 * resolves no name, so one that resolves to a private address passes here. What is no plain https URL with a public host
 * is refused, so that nobody reaches into the operator's or the service's network by way of an engine.
 */

/** `https://host[:port][path]`, no white space, backslash or control character anywhere. */
const HTTPS_URL = /^https:\/\/([^/?#\s\\]+)(?:[/?#][^\s\\]*)?$/iu;
const PORT = /:(\d{1,5})$/;
/** One label of a name: letters and digits of any script, hyphens inside. */
const LABEL = /^[\p{L}\p{N}](?:[\p{L}\p{M}\p{N}-]{0,61}[\p{L}\p{M}\p{N}])?$/u;
const QUAD = /^(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?!$)|$)){4}$/;
/** Names that never leave a machine, a cluster or a house; the last one is a cloud's metadata. */
const PRIVATE_ENDINGS =
  "localhost local internal intranet lan home.arpa localdomain corp home private svc default consul metadata.goog".split(
    " ",
  );
/** Resolvers drop these from a name, so it would not be judged as it is read. */
const DROPPED = /\p{Default_Ignorable_Code_Point}/u;

/** Addresses that are not of the public internet: [first, number of leading bits]. */
const PRIVATE_V4: readonly (readonly [string, number])[] = [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  // Azure's own services, as its machines see them.
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

/** A host has at most 253 letters; the rest is for ports and brackets. It bounds the cost of NFKC. */
const LONGEST_AUTHORITY = 300;

/** What is wrong with a URL, in words for the caller; undefined: nothing. */
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
  // As a resolver would read it: other forms of the same letters are the same name.
  const host = authority.replace(PORT, "").normalize("NFKC").toLowerCase().replace(/\.$/, "");
  return isPublicHost(host) ? undefined : "must name a public host";
}

function isPublicHost(host: string): boolean {
  if (host.startsWith("[")) return host.endsWith("]") && isPublicV6(host.slice(1, -1));
  if (QUAD.test(host)) return isPublicV4(host);
  const labels = host.split(".");
  // A last label without a letter makes it a number in some notation: 127.1, 0x7f.1, 2130706433.
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

/** Global unicast only, and of that neither documentation nor the forms that wrap an IPv4 address. */
function isPublicV6(address: string): boolean {
  if (!/^[\da-f:]{2,39}$/.test(address)) return false;
  const [first = "", second = ""] = address.split(":");
  const head = Number.parseInt(first || "0", 16);
  if (head < 0x2000 || head > 0x3fff || head === 0x2002) return false;
  const next = Number.parseInt(second || "0", 16);
  return !(head === 0x2001 && (next < 0x200 || next === 0xdb8));
}
