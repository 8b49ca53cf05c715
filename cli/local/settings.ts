/**
 * Where the gateway is and who asks: options, then the environment, then the profile file. A profile's token goes to
 * its own address alone.
 */
import { mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Connection } from "../../client/http.ts";
import type { Given, Io } from "../command.ts";
import { missing, usage } from "../failure.ts";
import { hint } from "../suggest.ts";
import { readPrivate, writePrivate } from "./private-file.ts";

const DEFAULT_URL = "http://localhost:8787";
const DEFAULT_SECONDS = 60;
const MOST_SECONDS = 3_600;

interface Profile {
  readonly url: string;
  readonly token: string;
}
export interface Profiles {
  /** The one that is used where none is named. */
  readonly current: string | null;
  readonly profiles: Readonly<Record<string, Profile>>;
}

export const profilesPath = ({ env, home }: Pick<Io, "env" | "home">): string =>
  env.TOLLGATE_PROFILES ?? join(env.XDG_CONFIG_HOME ?? join(home, ".config"), "tollgate", "profiles.json");

export function readProfiles(io: Pick<Io, "env" | "home">): Profiles {
  const path = profilesPath(io);
  const text = readPrivate(path);
  if (text === undefined) return { current: null, profiles: {} };
  const read = parsed(text);
  if (!isProfiles(read)) throw usage(`${path} is not a profile file. 'tollgate profile set' makes one.`);
  return read;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const isProfiles = (value: unknown): value is Profiles =>
  isRecord(value) &&
  (value.current === null || typeof value.current === "string") &&
  isRecord(value.profiles) &&
  Object.values(value.profiles).every(
    (profile) => isRecord(profile) && typeof profile.url === "string" && typeof profile.token === "string",
  );

export function writeProfiles(io: Pick<Io, "env" | "home">, profiles: Profiles): void {
  const path = profilesPath(io);
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  writePrivate(path, `${JSON.stringify(profiles, null, 2)}\n`);
}

export function profileNamed({ profiles }: Profiles, name: string): Profile {
  const profile = Object.hasOwn(profiles, name) ? profiles[name] : undefined;
  if (profile) return profile;
  throw missing(
    `There is no profile '${name}'.${hint(name, Object.keys(profiles))} 'tollgate profile list' shows them.`,
  );
}

/** The address without a slash at the end. */
export function checkedUrl(text: string): string {
  if (!URL.canParse(text)) throw usage(`'${text}' is no URL. Give one such as https://gateway.example.`);
  const url = new URL(text);
  if (url.protocol !== "http:" && url.protocol !== "https:")
    throw usage(`'${text}' must begin with https:// or http://.`);
  if (url.username || url.password) throw usage("The URL must not hold a name or a password. Set TOLLGATE_TOKEN.");
  if (url.search || url.hash) throw usage(`'${text}' must be the gateway's address alone, without ? and #.`);
  return url.origin + url.pathname.replace(/\/+$/, "");
}

const isLocal = (url: string): boolean => /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(new URL(url).hostname);

interface Where {
  readonly url: string;
  /** Undefined: none is set. */
  readonly token: string | undefined;
  readonly patienceMs: number;
}

/** Needs no token, for what asks nothing that needs one. */
export function whereIs(io: Pick<Io, "env" | "home">, given: Given): Where {
  const named = given.text("profile");
  const fromEnv = named === undefined && (io.env.TOLLGATE_URL ?? io.env.TOLLGATE_TOKEN) !== undefined;
  const profiles = fromEnv ? undefined : readProfiles(io);
  const name = named ?? profiles?.current ?? undefined;
  const profile = profiles && name !== undefined ? profileNamed(profiles, name) : undefined;
  const url = checkedUrl(given.text("url") ?? profile?.url ?? io.env.TOLLGATE_URL ?? DEFAULT_URL);
  if (profile && new URL(url).origin !== new URL(profile.url).origin) {
    throw usage(`The token of the profile '${name}' is for ${profile.url} alone. Set TOLLGATE_TOKEN for ${url}.`);
  }
  if (url.startsWith("http:") && !isLocal(url) && !given.flag("insecure")) {
    throw usage(`${url} would get your token in plain text. Use https://, or say --insecure.`);
  }
  return { url, token: profile?.token ?? io.env.TOLLGATE_TOKEN, patienceMs: patienceIn(given) };
}

export function connectionTo(io: Pick<Io, "env" | "home">, given: Given): Connection {
  const { url, token, patienceMs } = whereIs(io, given);
  if (!token) throw usage("No token is set. Set TOLLGATE_TOKEN, or make a profile with 'tollgate profile set'.");
  if (!/^[\x21-\x7e]+$/.test(token)) throw usage("The token has a character that no token has. Set it anew.");
  return { url, token, patienceMs };
}

function patienceIn(given: Given): number {
  const text = given.text("timeout");
  const seconds = text === undefined ? DEFAULT_SECONDS : Number(text);
  if (!(seconds > 0 && seconds <= MOST_SECONDS)) throw usage(`--timeout must be 1 to ${MOST_SECONDS} seconds.`);
  return seconds * 1000;
}
