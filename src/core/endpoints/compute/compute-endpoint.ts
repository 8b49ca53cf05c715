/**
 * A row of the compute table. `decide` is the row's rule with its body type erased: the account object looks the row up
 * by id and gives it the facts, the id of the path and the body that `parse` has checked.
 */
import type * as z from "zod/mini";
import type { CallAccess } from "../../account/call-access.ts";
import type { Role } from "../../account/tenant.ts";
import type { Market } from "../../compute/control.ts";
import type { Decision, Facts } from "../../compute/facts.ts";
import type { ResourceKind } from "../../compute/resource.ts";
import { bracketed, validate } from "../../issue-words.ts";
import { type Outcome, refused } from "../../outcome.ts";
import type { NamedLimit } from "../../refusal.ts";

/** The contract's fields need less; the largest are scripts. */
const MAX_BODY_BYTES = 256 * 1024;

const CALLS: NamedLimit = { name: "compute_calls", per: "key", count: 60, windowMs: 60_000 };
const LAUNCHES: NamedLimit = { name: "launches", per: "account", count: 10, windowMs: 60_000 };

export interface ComputeEndpoint {
  readonly id: string;
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  readonly path: string;
  readonly summary: string;
  readonly maxBytes: number;
  readonly schema: z.core.$ZodType | null;
  readonly access: CallAccess;
  readonly limits: readonly NamedLimit[];
  /** The kind that the `{id}` of the path names; null without one. */
  readonly on: ResourceKind | null;
  /** The kind that it lists; null: it is no list. */
  readonly lists: ResourceKind | null;
  /** The status of an accepted call. */
  readonly status: 200 | 201 | 202 | 204;
  /** Whether an `Idempotency-Key` makes a repeat give the resource as it stands. */
  readonly repeatable: boolean;
  /** What it shows of upstream's market; null: nothing. */
  readonly market: Market | null;
  /** What its rule must know of upstream's market; null: nothing. */
  readonly needs: Exclude<Market, "prices"> | null;
  /** What its rule must know of the seat, as the operator's books have it now; null: nothing, as ends need. */
  readonly seat: "shared" | "references" | null;
  /** What it shows of the operator's templates; null: nothing. */
  readonly template: TemplateCall | null;
  /** Whether its body may name a template, which fills what the body leaves out. */
  readonly fills: boolean;
  /** Null for a call that only reads. */
  readonly decide: ((facts: Facts, id: number, body: unknown) => Decision) | null;
  /** Parses the body for its rule; unknown fields are dropped. */
  parse(body: unknown): Outcome<{ body: unknown }>;
}

export type TemplateCall = "list" | "public" | "get" | "quote";

interface ComputeEntry<Schema extends z.core.$ZodType | null> {
  readonly id: string;
  readonly route: `${ComputeEndpoint["method"]} ${string}`;
  readonly summary: string;
  readonly body: Schema;
  readonly on?: ResourceKind;
  readonly lists?: ResourceKind;
  readonly role?: Role;
  readonly launch?: boolean;
  /** Launches are, without saying so. */
  readonly repeatable?: boolean;
  readonly market?: Market;
  /** Launches need the regions, without saying so. */
  readonly needs?: ComputeEndpoint["needs"];
  /** Launches need the references, without saying so. */
  readonly seat?: ComputeEndpoint["seat"];
  readonly template?: TemplateCall;
  readonly status: ComputeEndpoint["status"];
  readonly rule?: (
    facts: Facts,
    id: number,
    body: Schema extends z.core.$ZodType ? z.output<Schema> : null,
  ) => Decision;
}

const SPELLING = { whole: "The request body", pathOf: bracketed };

export function compute<Schema extends z.core.$ZodType | null>(entry: ComputeEntry<Schema>): ComputeEndpoint {
  const [method, path] = entry.route.split(" ") as [ComputeEndpoint["method"], string];
  const { body: schema, rule } = entry;
  return {
    id: entry.id,
    method,
    path,
    summary: entry.summary,
    maxBytes: schema ? MAX_BODY_BYTES : 0,
    schema,
    access: { scope: "compute", role: entry.role ?? "member" },
    limits: entry.launch ? [CALLS, LAUNCHES] : [CALLS],
    on: entry.on ?? null,
    lists: entry.lists ?? null,
    status: entry.status,
    repeatable: entry.repeatable ?? entry.launch ?? false,
    market: entry.market ?? null,
    needs: entry.needs ?? (entry.launch ? "gpus" : null),
    seat: entry.seat ?? (entry.launch ? "references" : null),
    template: entry.template ?? null,
    fills: entry.launch === true || entry.template === "quote",
    // `parse` made the body by the same schema.
    decide: rule ? (facts, id, body) => rule(facts, id, body as Parameters<typeof rule>[2]) : null,
    parse(body) {
      if (!schema) return { ok: true, body: null };
      const checked = validate(schema, body, SPELLING);
      if (checked.ok) return { ok: true, body: checked.data };
      const { message, param } = checked.complaint;
      return refused({ kind: "compute", refusal: { kind: "invalid", message, param } });
    },
  };
}

/** An id from a path: a plain integer. Anything else matches no row. */
export function idOf(text: string): number | null {
  return /^[1-9]\d{0,14}$/.test(text) ? Number(text) : null;
}
