/**
 * A route of the compute API, as a row: who may call it, which resource its path names, what its body holds, and what
 * it does. Refusals are answers too, `{error}` with a status.
 */
import type { z } from "zod";
import { check } from "../check.ts";
import type { Account, Key, Kind, OfKind, Resource, Role } from "./records.ts";
import type { World } from "./world.ts";

export interface Answer {
  readonly status: number;
  /** Null: without a body. */
  readonly body: unknown;
  /** The resource that the call is about, for the log. */
  readonly about?: number;
  readonly retryAfterS?: number;
}

export const answer = (status: number, body: unknown, about?: number): Answer => ({
  status,
  body,
  ...(about !== undefined && { about }),
});
export const refuse = (status: number, error: string): Answer => ({ status, body: { error } });

export type Checked<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly answer: Answer };
export const fine = <T>(value: T): Checked<T> => ({ ok: true, value });
export const no = (status: number, error: string) => ({ ok: false, answer: refuse(status, error) }) as const;

/** A call whose key, access, limits and body are in order. */
export interface Call {
  readonly world: World;
  readonly account: Account;
  readonly key: Key;
  readonly nowMs: number;
  /** The address at which the sandbox was called. */
  readonly origin: string;
  /** Of the OpenSSH key in the body; null: there is none, or it is not one. */
  readonly fingerprint: string | null;
  /** Counts a launch. The refusal if there were too many. */
  readonly launch: () => Answer | null;
}

/** `key`: any live key; `compute`: one with the scope, of an account with access. */
export type Access = "none" | "key" | "compute";

/** A row, its types erased. */
export interface Route {
  readonly method: string;
  /** Segments of the path; `:id` is the id of a resource. */
  readonly segments: readonly string[];
  readonly access: Access;
  /** The answer is a list of resources, from which a fault can leave some out. */
  readonly lists: boolean;
  readonly serve: (call: Call, id: number, body: unknown) => Answer;
  /** The body as the route takes it. */
  readonly read: (body: unknown) => Checked<unknown>;
}

interface Row<S extends z.ZodType, K extends Kind> {
  readonly body?: S;
  /** The kind of resource that `:id` names; it must be the account's. */
  readonly on?: K;
  readonly access?: Access;
  readonly roles?: readonly Role[];
  readonly lists?: boolean;
  readonly serve: (call: Call, body: z.output<S>, on: OfKind<K>, id: number) => Answer;
}

/** `where`: method and path. */
export function route<S extends z.ZodType, K extends Kind = Kind>(
  where: `${string} /${string}`,
  row: Row<S, K>,
): Route {
  const [method = "", path = ""] = where.split(" ");
  const { body: schema, on, access = "compute", roles, lists = false } = row;
  return {
    method,
    segments: path.slice(1).split("/"),
    access,
    lists,
    read: (body) => {
      if (!schema) return fine(undefined);
      const checked = check(body, schema);
      return checked.ok ? fine(checked.value) : no(400, checked.refusal.message);
    },
    serve: (call, id, body) => {
      const found = on && call.world.find(call.account, on, id);
      if (on && (!found || isGone(found))) return refuse(404, `There is no ${NAMES[on]} ${id} on this account.`);
      if (roles && !roles.includes(call.key.role)) {
        return refuse(403, `Your role (${call.key.role}) does not allow this. Ask an ${roles.join(" or ")}.`);
      }
      return row.serve(call, body as z.output<S>, found as OfKind<K>, id);
    },
  };
}

export const NAMES: Readonly<Record<Kind, string>> = {
  instance: "GPU instance",
  cluster: "GPU cluster",
  drive: "cloud drive",
  filesystem: "shared filesystem",
  image: "container image",
  ssh_key: "SSH key",
};

/** Whether an id answers 404 though it was once given. */
function isGone(resource: Resource): boolean {
  if ("removed" in resource) return resource.removed;
  return resource.kind === "drive" || resource.kind === "filesystem"
    ? resource.phase === "deleted"
    : resource.phase === "lost";
}

/** The first row for this method and path, and the id that the path names (NaN if it is no id). */
export function findRoute(routes: readonly Route[], method: string, path: string): { route: Route; id: number } | null {
  const segments = path.slice(1).split("/");
  for (const one of routes) {
    if (one.method !== method || one.segments.length !== segments.length) continue;
    let id = Number.NaN;
    const matches = one.segments.every((segment, index) => {
      if (segment !== ":id") return segment === segments[index];
      id = /^\d{1,15}$/.test(segments[index] ?? "") ? Number(segments[index]) : Number.NaN;
      return true;
    });
    if (matches) return { route: one, id };
  }
  return null;
}
