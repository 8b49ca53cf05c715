/**
 * Registered container images: references, credentials, and what a registration may change.
 *
 * A secret passes through once: it is part of `ImageRequest`, which goes upstream and is stored nowhere. Of a stored
 * credential an account knows its user name and its registry host. A credential is for one host. Whoever moves it to
 * another must give it anew, because otherwise an administrator could have the service send a colleague's secret to a
 * host of his own.
 */
import { type Outcome, type Refused, refused } from "../outcome.ts";
import type { ComputeRefusal } from "./refusals.ts";

/** An image reference, in one spelling. */
interface Reference {
  /** In small letters; with its port unless that is 443. */
  readonly host: string;
  readonly path: string;
  readonly tag: string | null;
  readonly digest: string | null;
}

const DOCKER = "docker.io";
/** Docker's registry under its other names. */
const DOCKER_ALIASES: ReadonlySet<string> = new Set(["index.docker.io", "registry-1.docker.io"]);

export const MOST_REFERENCE = 1_000;

const HOST =
  /^(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*|\[[0-9a-f:]{2,39}\])(?::\d{1,5})?$/;
const COMPONENT = /^[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*$/;
const TAG = /^\w[\w.-]{0,127}$/;
const DIGEST = /^[a-z0-9]+(?:[+._-][a-z0-9]+)*:[0-9a-f]{32,256}$/i;

/** Reads a reference as container engines do. Undefined if it is none: a scheme, user, query or foreign letter. */
export function readReference(text: string): Reference | undefined {
  if (text.length > MOST_REFERENCE) return undefined;
  const [named = "", digest = null, ...more] = text.split("@");
  if (more.length > 0 || (digest !== null && !DIGEST.test(digest))) return undefined;
  const parts = named.split("/");
  // A first part that cannot be a part of a path names the host.
  const namesHost = parts.length > 1 && /[.:A-Z]|^localhost$/.test(parts[0] ?? "");
  const host = namesHost ? (parts.shift() ?? "").toLowerCase() : DOCKER;
  const [last = "", tag = null, ...rest] = (parts.pop() ?? "").split(":");
  const path = [...parts, last];
  if (!HOST.test(host) || rest.length > 0 || (tag !== null && !TAG.test(tag))) return undefined;
  if (!path.every((part) => COMPONENT.test(part))) return undefined;
  return { host: knownHost(host), path: path.join("/"), tag, digest: digest?.toLowerCase() ?? null };
}

function knownHost(host: string): string {
  const plain = host.replace(/:443$/, "");
  return DOCKER_ALIASES.has(plain) ? DOCKER : plain;
}

/** Whether two references name the same image, however they are spelled. */
export function sameImage(one: string, other: string): boolean {
  if (one === other) return true;
  const [a, b] = [readReference(one), readReference(other)];
  return a !== undefined && b !== undefined && spelling(a) === spelling(b);
}

function spelling({ host, path, tag, digest }: Reference): string {
  const whole = host === DOCKER && !path.includes("/") ? `library/${path}` : path;
  return `${host}/${whole}${digest === null ? `:${tag ?? "latest"}` : `@${digest}`}`;
}

/** A private registry of AWS. Its tokens end after 12 hours, so they are no use here. */
const isPrivateEcr = (host: string): boolean => /^\d{12}\.dkr[.-]ecr(-fips)?\./.test(host);

/** What an account keeps of an image. Without a secret. */
export interface Registration {
  readonly name: string;
  readonly registryUrl: string;
  /** Null: no credential is stored, and it is pulled anonymously. */
  readonly username: string | null;
}

/** A checked body of POST or PUT; undefined: not given. */
export interface ImageBody {
  readonly name?: string | undefined;
  readonly registry_url?: string | undefined;
  readonly registry_username?: string | undefined;
  readonly registry_secret?: string | undefined;
}

/** What goes upstream besides our tag. Two empty texts remove the credential. */
export interface ImageRequest {
  readonly registry_url?: string;
  readonly registry_username?: string;
  readonly registry_secret?: string;
}

export interface ImageFacts {
  /** Many accounts share the upstream account: no credential may be stored there. */
  readonly shared: boolean;
  /** The account's other images. */
  readonly others: readonly Registration[];
}

/** `request`: null where upstream has nothing to change. */
export type ImageDecision = Outcome<{ readonly after: Registration; readonly request: ImageRequest | null }>;

const refuse = (refusal: ComputeRefusal): Refused => refused({ kind: "compute", refusal });
const invalid = (param: keyof ImageBody, message: string): Refused => refuse({ kind: "invalid", message, param });

/** POST. */
export function registerImage(body: ImageBody & Pick<Registration, "name">, facts: ImageFacts): ImageDecision {
  const credential = credentialOf(body);
  if (!credential.ok) return credential;
  const registryUrl = body.registry_url ?? "";
  const { pair } = credential;
  const fault = bodyFault(registryUrl, pair, facts) ?? takenFault(registryUrl, facts);
  if (fault) return fault;
  const after = { name: body.name, registryUrl, username: pair?.registry_username || null };
  const request = { registry_url: registryUrl, ...(pair?.registry_username && pair) };
  return { ok: true, after, request: facts.shared ? null : request };
}

/**
 * PUT. `settled`: upstream is known to hold what `before` says. After an answer that was lost it is not, and then
 * nothing may rely on the host of the stored credential.
 */
export function changeImage(before: Registration, settled: boolean, body: ImageBody, facts: ImageFacts): ImageDecision {
  const credential = credentialOf(body);
  if (!credential.ok) return credential;
  const { pair } = credential;
  const registryUrl = body.registry_url ?? before.registryUrl;
  const fault =
    bodyFault(registryUrl, pair, facts) ??
    (pair === undefined ? moveFault(before, settled, registryUrl) : undefined) ??
    (registryUrl === before.registryUrl ? undefined : takenFault(registryUrl, facts));
  if (fault) return fault;
  const username = pair === undefined ? before.username : pair.registry_username || null;
  const after = { name: body.name ?? before.name, registryUrl, username };
  const moved = registryUrl !== before.registryUrl || (!settled && pair !== undefined);
  if (facts.shared || (!moved && pair === undefined)) return { ok: true, after, request: null };
  return { ok: true, after, request: { ...(moved && { registry_url: registryUrl }), ...pair } };
}

type Pair = Required<Pick<ImageRequest, "registry_username" | "registry_secret">>;

/** `pair`: undefined where the body has none; two empty texts remove the credential. */
function credentialOf({ registry_username, registry_secret }: ImageBody): Outcome<{ pair: Pair | undefined }> {
  if (registry_username === undefined && registry_secret === undefined) return { ok: true, pair: undefined };
  const half = !registry_username !== !registry_secret;
  if (registry_username === undefined || registry_secret === undefined || half) {
    return invalid(
      registry_username ? "registry_secret" : "registry_username",
      "`registry_username` and `registry_secret` must be sent together: both with a value, or both empty to remove the credential.",
    );
  }
  return { ok: true, pair: { registry_username, registry_secret } };
}

/** What is wrong with the reference, or with a new credential for it. */
function bodyFault(registryUrl: string, pair: Pair | undefined, { shared }: ImageFacts): Refused | undefined {
  const reference = readReference(registryUrl);
  if (!reference) {
    return invalid(
      "registry_url",
      "`registry_url` must be an image reference such as `registry.example.com/team/image:1.0`, without a scheme.",
    );
  }
  if (!pair?.registry_username) return undefined;
  if (isPrivateEcr(reference.host)) {
    return invalid(
      "registry_secret",
      "Tokens of this registry end after 12 hours, so none is stored. Make the repository public, or grant the service " +
        "pull access and register the image without a credential.",
    );
  }
  return shared
    ? invalid("registry_secret", "Registry credentials are not offered on this account. Use a public image.")
    : undefined;
}

/** Why the stored credential cannot stay with an image that gets another reference. */
function moveFault(before: Registration, settled: boolean, registryUrl: string): Refused | undefined {
  if (registryUrl === before.registryUrl) return undefined;
  const sameHost = hostOf(registryUrl) === hostOf(before.registryUrl);
  if (settled && (before.username === null || sameHost)) return undefined;
  return invalid(
    "registry_url",
    "A stored credential is for one registry. Send `registry_username` and `registry_secret` for the new one, or both " +
      "empty to remove the credential.",
  );
}

const hostOf = (registryUrl: string): string | undefined => readReference(registryUrl)?.host;

/** An account registers a reference once: a launch finds its credential by the reference. */
function takenFault(registryUrl: string, { others }: ImageFacts): Refused | undefined {
  return others.some((other) => other.registryUrl === registryUrl)
    ? refuse({ kind: "duplicate", what: "image", field: "registry_url" })
    : undefined;
}
