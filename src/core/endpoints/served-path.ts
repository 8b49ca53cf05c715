/**
 * Paths as clients write them. SDK base URLs come with a trailing slash, without `/v1`, or with it twice. If only one
 * call can be meant, it is served. Nothing is decoded here, and only calls under `/v1` match, so no path leads to
 * another API.
 */
import { edits } from "../issue-words.ts";
import { COMPUTE_ROWS } from "./compute/compute-table.ts";
import type { ErrorShape } from "./error-shape.ts";
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

const GPU_PRICES = { method: "GET", path: "/platform/gpu-prices" };
const CALLS = [...ENDPOINTS, ...COMPUTE_ROWS, GPU_PRICES];

/** First segments of the compute contract's paths. */
const COMPUTE_ROOTS = new Set(["billing", ...COMPUTE_ROWS.map(({ path }) => path.split("/")[1] ?? "")]);

const TENANT_ROOTS = new Set([...COMPUTE_ROOTS, "v1", "platform", "account", "inference-instances"]);

/** Whether the path belongs to the tenants' API. */
export const isTenantPath = (path: string): boolean => TENANT_ROOTS.has(path.split("/", 2)[1] ?? "");

/**
 * The form of an error where no call was found: that of the calls whose paths begin alike, with `/v1` before or not.
 */
export function errorShapeAt(path: string): ErrorShape {
  const [, , root = "", leaf] = versioned(path.slice(0, LONGEST_COMPARED)).split("/");
  return COMPUTE_ROOTS.has(root) || (root === "platform" && leaf === "gpu-prices") ? "compute" : "openai";
}

/** The call with the path closest to one that is not served, with its method; null if none is close. */
export function closestCall(method: string, path: string): string | null {
  const written = versioned(path.slice(0, LONGEST_COMPARED).toLowerCase());
  const ranked = CALLS.map((call) => {
    const bare = call.path.replace("*}", "}");
    const rest = bare.startsWith(`${VERSION}/`) ? bare.slice(VERSION.length) : bare;
    const distance = written.endsWith(rest) ? 0 : edits(written.slice(VERSION.length), rest);
    return { call: `${call.method} ${bare}`, distance, far: bare.length / 3, other: call.method !== method };
  }).filter(({ distance, far }) => distance < far);
  ranked.sort((a, b) => a.distance - b.distance || Number(a.other) - Number(b.other));
  return ranked[0]?.call ?? null;
}
const LONGEST_COMPARED = 80;
