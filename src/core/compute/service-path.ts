/**
 * Service paths: `/gpu-instances/{id}/service/...` and the same of clusters. What follows `service` goes to the pod as
 * it was written. It must not climb out: the same key opens other paths of the upstream account. So a path is refused
 * if any server on the way could read a step upwards in it, however it is encoded.
 */
import type { MachineKind } from "./resource.ts";

/** What a request's URL names. `rest`: empty or from its slash on; `query`: empty or from its question mark on. */
export interface ServicePath {
  readonly kind: MachineKind;
  /** As written; it may be no id at all. */
  readonly id: string;
  readonly rest: string;
  readonly query: string;
}

const PATHS: Readonly<Record<MachineKind, string>> = { instance: "gpu-instances", cluster: "gpu-clusters" };
const ADDRESS = /^[a-z]+:\/\/[^/?#]*([^?#]*)(\?[^#]*)?/i;
const SERVICE = /^\/gpu-(instance|cluster)s\/([^/]*)\/service(\/.*)?$/;

/** Null: it is another path. The URL is taken as it was sent, and nothing in it is decoded. */
export function servicePathOf(url: string): ServicePath | null {
  const [, path = "", query = ""] = ADDRESS.exec(url) ?? [];
  const [whole, kind, id = "", rest = ""] = SERVICE.exec(path) ?? [];
  return whole === undefined ? null : { kind: kind === "cluster" ? "cluster" : "instance", id, rest, query };
}

/** Below a root; `id` is the side's own. */
export const servicePrefix = (kind: MachineKind, id: number): string => `/${PATHS[kind]}/${id}/service`;

/** A virtual key, anywhere in a text. */
const KEY = /sk-tg-[0-9A-Za-z]{38}/;
export const holdsKey = (text: string): boolean => KEY.test(text);

export type PathFault = "path" | "key_in_url";

/** Null: it may pass. */
export function servicePathFault({ rest, query }: Pick<ServicePath, "rest" | "query">): PathFault | null {
  // Spaces and control characters change what a URL is; a backslash is a slash to some.
  if (!/^[^\s\p{Cc}\\]*$/u.test(rest) || !/^[^\s\p{Cc}]*$/u.test(query)) return "path";
  const texts = readings(rest);
  if (texts === null || texts.some(climbs)) return "path";
  return [...texts, ...(readings(query) ?? [query])].some(holdsKey) ? "key_in_url" : null;
}

/** How often a path may be decoded on its way. A path that is encoded more often is none. */
const MOST_READINGS = 5;

/** What the servers on the way may read: the text, and each of its decodings. Null: it never comes to an end. */
function readings(text: string): readonly string[] | null {
  const texts = [text];
  for (let last = text; texts.length <= MOST_READINGS; ) {
    const next = last.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
    if (next === last) return texts;
    texts.push(next);
    last = next;
  }
  return null;
}

/** Bytes that some decoders take for a dot, a slash or a backslash, though UTF-8 forbids them. */
const OVERLONG = /[\u00c0\u00c1]|\u00e0[\u0080-\u009f]|\u00f0[\u0080-\u008f]/;

function climbs(text: string): boolean {
  if (text.includes("\0") || OVERLONG.test(text)) return true;
  // `..;a` is a step upwards to servers that take parameters in segments; wide dots are dots after normalisation.
  return text
    .normalize("NFKC")
    .split(/[/\\]/)
    .some((segment) => /^\s*\.\.?\s*(;.*)?$/s.test(segment));
}

/** Where a redirect comes from, and what each side's prefix is. */
export interface RedirectPlace {
  /** Of the request: what the pod was asked for. */
  readonly rest: string;
  /** Host and port of the upstream's root, and the path of this service there. */
  readonly upstreamHost: string;
  readonly upstreamPrefix: string;
  readonly ourPrefix: string;
}

const REFERENCE = /^(?:([^:/?#]+):)?(?:\/\/([^/?#]*))?([^?#]*)(\?[^#]*)?(#.*)?$/s;

/**
 * A `location` of the pod as an address inside our service path. A pod does not know under which path it is reached, so
 * its paths count from there. Null for any other host: a client that follows would take its key along.
 */
export function ourLocation(location: string, place: RedirectPlace): string | null {
  const [, scheme, authority, path = "", query = "", fragment = ""] = REFERENCE.exec(location) ?? [];
  if (scheme !== undefined && (authority === undefined || !/^https?$/i.test(scheme))) return null;
  if (authority !== undefined && authority.toLowerCase() !== place.upstreamHost) return null;
  const rest = withoutDots(inside(path, authority !== undefined, place));
  // A query within the path would hide a step upwards.
  if (/[?#]/.test(rest)) return null;
  if (!/^[!-~]*$/.test(rest + query + fragment) || servicePathFault({ rest, query: query + fragment })) return null;
  return place.ourPrefix + rest + query + fragment;
}

/** The path that the pod means, from its own root on. */
function inside(path: string, absolute: boolean, { rest, upstreamPrefix }: RedirectPlace): string {
  if (path === "") return absolute ? "/" : rest || "/";
  if (!path.startsWith("/")) return `${rest.slice(0, rest.lastIndexOf("/"))}/${path}`;
  const its = path === upstreamPrefix || path.startsWith(`${upstreamPrefix}/`);
  return its ? path.slice(upstreamPrefix.length) || "/" : path;
}

function withoutDots(path: string): string {
  const kept: string[] = [];
  const segments = path.split("/").slice(1);
  segments.forEach((segment, at) => {
    const last = at === segments.length - 1;
    if (segment === "..") kept.pop();
    if (segment !== "." && segment !== "..") kept.push(segment);
    else if (last) kept.push("");
  });
  return `/${kept.join("/")}`;
}
