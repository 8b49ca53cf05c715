/**
 * The console's cookie. On https it is `__Host-tg`: for this host alone, never readable by scripts, never sent along
 * from another site. A browser keeps no such cookie for http://localhost, so it has another name there, one for each
 * port.
 */

export const SESSION_SECONDS = 8 * 60 * 60;
/** A sealed session has some 250 characters. */
const LONGEST = 1_000;
const LOCAL_HOSTS = new Set(["localhost", "127.0.0.1", "[::1]"]);

export interface CookiePlace {
  readonly origin: string;
  readonly name: string;
  readonly secure: boolean;
}

/** Null: http to another host than this machine, where no session is safe. */
export function cookiePlace(url: string): CookiePlace | null {
  const { protocol, hostname, port, origin } = new URL(url);
  if (protocol === "https:") return { origin, name: "__Host-tg", secure: true };
  return LOCAL_HOSTS.has(hostname) ? { origin, name: `tg-${port || "80"}`, secure: false } : null;
}

/** The value of the one cookie of this name; of two it takes none, since it cannot tell which is ours. */
export function cookieIn(headers: Headers, { name }: CookiePlace): string | undefined {
  const found = (headers.get("cookie") ?? "")
    .split(";")
    .map((pair) => pair.trim())
    .filter((pair) => pair.startsWith(`${name}=`));
  const value = found.length === 1 ? found[0]?.slice(name.length + 1) : undefined;
  return value && value.length <= LONGEST ? value : undefined;
}

/** `set-cookie`; an empty value clears it. */
export const cookieLine = ({ name, secure }: CookiePlace, value: string): string =>
  `${name}=${value}; Path=/; Max-Age=${value ? SESSION_SECONDS : 0}; HttpOnly; SameSite=Strict${secure ? "; Secure" : ""}`;
