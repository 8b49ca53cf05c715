/** Reads the lists that are due, keeps what they show, and tells the accounts what concerns them. */
import type { ControlAnswer, Observation, Observer } from "../../core/compute/control.ts";
import {
  dueLists,
  LIST_PATHS,
  LISTED_KINDS,
  type Listed,
  type ListedKind,
  type Push,
  pushesOf,
} from "../../core/compute/listing.ts";
import { shortened } from "../../core/compute/long-lists.ts";
import { parseTag } from "../../core/compute/tag.ts";
import { plainImage } from "../../core/compute/upstream-images.ts";
import { asObject } from "../../core/formats/json-fields.ts";
import type { AccountNumber } from "../../core/ids.ts";
import { log } from "../log.ts";
import type { BrokerTables } from "./tables.ts";

export interface ListingPorts {
  readonly upstream: string;
  /** The mark of this deployment in its tags. */
  readonly deployment: string;
  /** Sends one list call, when the budget has room. */
  list(path: string): Promise<ControlAnswer>;
  account(number: AccountNumber): Observer;
  now(): number;
}

/** Accounts told at once. */
const TOLD_AT_ONCE = 16;
export const listedAt = (tables: BrokerTables, kind: ListedKind): number | null => tables.time(`listed ${kind}`);

/** Until which list what a call's path names was still there, as its account was told; null: not known. */
export function sameUntil(tables: BrokerTables, path: string): number | null {
  const [, list, id] = path.split("/");
  const kind = LISTED_KINDS.find((one) => LIST_PATHS[one] === `/${list}`);
  return kind !== undefined && tables.isAsTold(kind, Number(id)) ? seenAt(tables, kind) : null;
}

/** When the last list was asked for that is kept. */
const seenAt = (tables: BrokerTables, kind: ListedKind): number | null => tables.time(`seen ${kind}`);

/** When the next list is due; null: nobody watches. */
export function nextListMs(tables: BrokerTables): number | null {
  return due(tables)[0]?.atMs ?? null;
}

function due(tables: BrokerTables): { kind: ListedKind; atMs: number }[] {
  const watches = tables.watches();
  const kinds = new Set(watches.map(({ kind }) => kind));
  return dueLists(watches, new Map([...kinds].map((kind) => [kind, listedAt(tables, kind) ?? 0])));
}

/** Lists each kind whose time has come, one after the other. */
export async function runDueLists(tables: BrokerTables, ports: ListingPorts): Promise<void> {
  for (const { kind, atMs } of due(tables)) {
    if (atMs > ports.now()) return;
    await runList(kind, tables, ports);
  }
}

/** False if the upstream gave no list. */
export async function runList(kind: ListedKind, tables: BrokerTables, ports: ListingPorts): Promise<boolean> {
  // Until then every document was as it is kept now; a list that failed says nothing.
  const told = tables.told(kind, seenAt(tables, kind));
  const answer = await ports.list(LIST_PATHS[kind]);
  // Also where it failed: the next try comes after the usual time.
  tables.setFact(`listed ${kind}`, String(answer.kind === "not_sent" ? ports.now() : answer.sentAtMs));
  const listed =
    answer.kind === "answered" && answer.status === 200 ? readList(kind, answer.body, ports.deployment) : undefined;
  if (!listed || answer.kind !== "answered") {
    const why = answer.kind === "answered" ? `status ${answer.status}` : answer.kind;
    log({ event: "compute_list_failed", upstream: ports.upstream, kind, why });
    return false;
  }
  tables.see(kind, listed);
  tables.setFact(`seen ${kind}`, String(answer.sentAtMs));
  await tell(kind, pushesOf(listed, tables.watches(kind), told), answer.sentAtMs, tables, ports);
  return true;
}

async function tell(
  kind: ListedKind,
  pushes: readonly Push[],
  askedAtMs: number,
  tables: BrokerTables,
  ports: ListingPorts,
): Promise<void> {
  for (let first = 0; first < pushes.length; first += TOLD_AT_ONCE) {
    await Promise.all(
      pushes.slice(first, first + TOLD_AT_ONCE).map(async ({ account, documents, absent }) => {
        const observation: Observation = { upstream: ports.upstream, kind, documents, absent, askedAtMs };
        try {
          const unknown = await ports.account(account as AccountNumber).observed(observation);
          reportUnknown(kind, unknown, tables, ports.upstream);
          tables.recordTold(
            kind,
            account,
            documents.map(({ document }) => document),
          );
        } catch (error) {
          // It is told again with the next list.
          log({ event: "compute_observation_failed", account, kind, error: String(error) });
        }
      }),
    );
  }
}

/** Our tags that no row has: told to the operator once while they are seen, and left alone. */
function reportUnknown(kind: ListedKind, tags: readonly string[], tables: BrokerTables, upstream: string): void {
  for (const { upstreamId, tag, account } of tables.newlyUnknown(kind, tags)) {
    log({ event: "compute_unknown_resource", upstream, kind, upstream_id: upstreamId, account, tag });
  }
}

/** Undefined for what is no list. Things without an integer id and a name are left out: they cannot be ours. */
function readList(kind: ListedKind, body: string, deployment: string): Listed[] | undefined {
  let parsed: unknown;
  try {
    parsed = JSON.parse(body);
  } catch {
    return undefined;
  }
  if (!Array.isArray(parsed)) return undefined;
  const seen = new Set<number>();
  return parsed.flatMap((item: unknown) => {
    const fields = asObject(item) ?? {};
    const { id, name } = fields;
    if (!Number.isSafeInteger(id) || typeof name !== "string" || seen.has(id as number)) return [];
    seen.add(id as number);
    const tag = parseTag(name);
    const account = tag && tag.deployment === deployment ? tag.account : null;
    return [
      {
        upstreamId: id as number,
        tag: name,
        account,
        document: shortened(kind === "image" ? plainImage(fields) : fields),
      },
    ];
  });
}
