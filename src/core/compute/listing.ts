/**
 * What a broker lists when, and which account is told of what.
 *
 * A list shows everything of one kind that exists at an upstream account. While a resource of ours is in transition its
 * kind is listed every 5 s (with three and more such kinds every 9 s and 12 s, as they share the calls), else every 60
 * s while anything of it lives. An account is told of documents that changed since it was last told, and of each
 * resource in transition at every list, found or not: its own row may have changed though the document did not. An
 * account without either is not woken.
 */

export const LISTED_KINDS = ["instance", "cluster", "drive", "filesystem", "image", "ssh_key"] as const;
export type ListedKind = (typeof LISTED_KINDS)[number];

export const LIST_PATHS: Record<ListedKind, string> = {
  instance: "/gpu-instances",
  cluster: "/gpu-clusters",
  drive: "/cloud-drives",
  filesystem: "/shared-filesystems",
  image: "/container-images",
  ssh_key: "/ssh-keys",
};

const LIST_WITHIN_MS = 5_000;
const LIST_AT_REST_MS = 60_000;
/** Kinds in transition share the list calls of a minute: each is listed this much later for every one of them. */
const LIST_SHARE_MS = 3_000;

/** What one account asks a broker to watch, of one kind. */
export interface Watch {
  readonly account: number;
  readonly kind: ListedKind;
  /** Tags of its resources that live: it is told when a list does not show one. */
  readonly tags: readonly string[];
  /** Those of them in transition: it is told of these at every list. */
  readonly inTransition: readonly string[];
}

/** When each watched kind is to be listed next, soonest first. `listedAtMs`: when its last list was asked for. */
export function dueLists(
  watches: readonly Watch[],
  listedAtMs: ReadonlyMap<ListedKind, number>,
): { kind: ListedKind; atMs: number }[] {
  const everyMs = new Map<ListedKind, number>();
  const inHaste = new Set(watches.flatMap(({ kind, inTransition }) => (inTransition.length > 0 ? [kind] : [])));
  const withinMs = Math.max(LIST_WITHIN_MS, inHaste.size * LIST_SHARE_MS);
  for (const { kind, inTransition } of watches) {
    const spanMs = inTransition.length > 0 ? withinMs : LIST_AT_REST_MS;
    everyMs.set(kind, Math.min(everyMs.get(kind) ?? LIST_AT_REST_MS, spanMs));
  }
  return [...everyMs]
    .map(([kind, spanMs]) => ({ kind, atMs: (listedAtMs.get(kind) ?? 0) + spanMs }))
    .sort((one, other) => one.atMs - other.atMs);
}

/** A document of a list, as far as the broker reads it. `account`: by its tag; null where it carries none of ours. */
export interface Listed {
  readonly upstreamId: number;
  readonly tag: string;
  readonly account: number | null;
  /** The document as JSON: what the account's object reads. */
  readonly document: string;
}

export interface Told {
  readonly tag: string;
  readonly document: string;
  readonly sameUntilMs: number | null;
}

/** See `Observation`. */
interface Absent {
  readonly tag: string;
  readonly sameUntilMs: number | null;
}

export interface Push {
  readonly account: number;
  /**
   * Documents that are new, changed or in transition, and until which list what was told of them before was still so.
   */
  readonly documents: readonly { readonly document: string; readonly sameUntilMs: number | null }[];
  /** Tags that the list does not show, and until which list they were as their account was told before. */
  readonly absent: readonly Absent[];
}

/**
 * Whom to tell what after a list. `told`: the document that each account was last told, by upstream id, and when the
 * last list was asked for that still showed it.
 */
export function pushesOf(
  listed: readonly Listed[],
  watches: readonly Watch[],
  told: ReadonlyMap<number, Told>,
): Push[] {
  const inTransition = new Map(watches.map((watch) => [watch.account, new Set(watch.inTransition)]));
  const documents = new Map<number, Push["documents"][number][]>();
  const shown = new Set<string>();
  for (const { upstreamId, tag, account, document } of listed) {
    shown.add(tag);
    if (account === null) continue;
    const before = told.get(upstreamId);
    if (before?.document === document && !inTransition.get(account)?.has(tag)) continue;
    const its = documents.get(account) ?? [];
    documents.set(account, its);
    its.push({ document, sameUntilMs: before?.sameUntilMs ?? null });
  }
  const before = new Map([...told.values()].map(({ tag, sameUntilMs }) => [tag, sameUntilMs]));
  const absentOf = (tags: readonly string[]): Absent[] =>
    tags.flatMap((tag) => (shown.has(tag) ? [] : [{ tag, sameUntilMs: before.get(tag) ?? null }]));
  const absent = new Map(watches.map(({ account, tags }) => [account, absentOf(tags)] as const));
  const accounts = new Set([
    ...documents.keys(),
    ...[...absent].filter(([, tags]) => tags.length > 0).map(([of]) => of),
  ]);
  return [...accounts].map((account) => ({
    account,
    documents: documents.get(account) ?? [],
    absent: absent.get(account) ?? [],
  }));
}
