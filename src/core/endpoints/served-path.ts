/**
 * Paths as clients write them. SDK base URLs come with a trailing slash, without `/v1`, or with it twice. If only one
 * call can be meant, it is served. Nothing is decoded here, and only calls under `/v1` match, so no path leads to
 * another API.
 */
import { edits } from "../issue-words.ts";
import { ENDPOINTS } from "./table.ts";

const VERSION = "/v1";

interface Shape {
  readonly method: string;
  readonly pattern: RegExp;
}
const SHAPES: readonly Shape[] = ENDPOINTS.filter(({ path }) => path.startsWith(`${VERSION}/`)).map(
  ({ method, path }) => ({
    method,
    pattern: new RegExp(`^${path.replace(/\{\w+\*\}/g, ".+").replace(/\{\w+\}/g, "[^/]+")}$`),
  }),
);

const isCall = (method: string, path: string): boolean =>
  SHAPES.some((shape) => shape.method === (method === "HEAD" ? "GET" : method) && shape.pattern.test(path));

/** The path of the call that is meant, or the path unchanged. A longer path matches no call. */
export function servedPath(method: string, path: string): string {
  if (path.length > LONGEST_PATH || isCall(method, path)) return path;
  const meant = versioned(path);
  return isCall(method, meant) ? meant : path;
}
const LONGEST_PATH = 1_000;

function versioned(path: string): string {
  const segments = path.split("/").filter((segment) => segment !== "");
  const first = segments.findIndex((segment) => `/${segment}` !== VERSION);
  return [VERSION, ...(first === -1 ? [] : segments.slice(first))].join("/");
}

/** The call with the path closest to one that is not served, with its method; null if none is close. */
export function closestCall(method: string, path: string): string | null {
  const written = versioned(path.slice(0, LONGEST_COMPARED).toLowerCase());
  const ranked = ENDPOINTS.map((endpoint) => {
    const bare = endpoint.path.replace("*}", "}");
    const distance = written.endsWith(bare.slice(VERSION.length)) ? 0 : edits(written, bare);
    return { call: `${endpoint.method} ${bare}`, distance, far: bare.length / 3, other: endpoint.method !== method };
  }).filter(({ distance, far }) => distance < far);
  ranked.sort((a, b) => a.distance - b.distance || Number(a.other) - Number(b.other));
  return ranked[0]?.call ?? null;
}
const LONGEST_COMPARED = 80;
