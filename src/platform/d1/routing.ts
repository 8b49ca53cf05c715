/**
 * Reads the routing snapshot from the operator's books: whole, in one transaction, with its version. Triggers in D1
 * raise the version at every change of routing.
 *
 * This folder has one file per part of D1. It promises transactions and typed rows; what may be written is decided by
 * the APIs and core.
 */
import { aliasKey, type RoutingSnapshot } from "../../core/routing/routes.ts";
import { ALIAS_COLUMNS, aliasOf, type StoredAlias } from "./aliases.ts";
import { INSTANCE_COLUMNS, instanceOf, type StoredInstance } from "./instances.ts";
import { MODEL_COLUMNS, modelOf, type StoredModel } from "./models.ts";
import { type StoredTemplate, TEMPLATE_COLUMNS, templateOf } from "./templates.ts";
import { type StoredUpstream, UPSTREAM_COLUMNS, upstreamOf } from "./upstreams.ts";

/** A snapshot with the version of the books that it shows. */
export interface VersionedRouting extends RoutingSnapshot {
  readonly version: number;
}

/** The current snapshot. Model rows that have ended are left out. */
export async function readRouting(books: D1Database, nowMs: number): Promise<VersionedRouting> {
  const [version, upstreams, aliases, instances, models, templates] = await books.batch([
    books.prepare("select version from routing_version"),
    books.prepare(`select ${UPSTREAM_COLUMNS} from upstreams`),
    books.prepare(`select ${ALIAS_COLUMNS} from aliases`),
    books.prepare(`select ${INSTANCE_COLUMNS} from instances`),
    books
      .prepare(
        `select ${MODEL_COLUMNS} from models as row where from_ms >= coalesce(
           (select max(from_ms) from models where model = row.model and from_ms <= ?1), from_ms)
         order by model, from_ms desc`,
      )
      .bind(nowMs),
    books.prepare(`select ${TEMPLATE_COLUMNS} from compute_templates`),
  ]);
  const rows = <T>(result: D1Result | undefined): T[] => (result?.results ?? []) as T[];
  return {
    version: rows<{ version: number }>(version)[0]?.version ?? 0,
    builtAtMs: nowMs,
    upstreams: Object.fromEntries(rows<StoredUpstream>(upstreams).map((row) => [row.id, upstreamOf(row)])),
    aliases: Object.fromEntries(
      rows<StoredAlias>(aliases)
        .map(aliasOf)
        .map((row) => [aliasKey(row.account, row.alias), row]),
    ),
    instances: Object.fromEntries(rows<StoredInstance>(instances).map((row) => [row.instance_id, instanceOf(row)])),
    models: Object.groupBy(rows<StoredModel>(models).map(modelOf), (row) => row.model) as RoutingSnapshot["models"],
    templates: rows<StoredTemplate>(templates).map(templateOf),
  };
}

export async function readRoutingVersion(books: D1Database): Promise<number> {
  return (await books.prepare("select version from routing_version").first<number>("version")) ?? 0;
}

/** Raises the version without a change, after a backup was restored. */
export async function raiseRoutingVersion(books: D1Database, atLeast: number): Promise<void> {
  await books.prepare("update routing_version set version = max(version, ?1) + 1").bind(atLeast).run();
}
