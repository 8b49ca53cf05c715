/**
 * What is left at an upstream account: what stands in the way when a seat, or the upstream itself, changes. Ended
 * machines stay in lists for days and are in nobody's way; images and SSH keys are, since the next tenant's machines
 * could get them.
 */
import { asObject } from "../formats/json-fields.ts";
import type { Seen } from "./control.ts";
import type { ListedKind } from "./listing.ts";

/** The contract's statuses of what is over. */
const OVER: Partial<Record<ListedKind, readonly string[]>> = {
  instance: ["terminated", "failed"],
  cluster: ["stopped", "failed"],
  drive: ["deleted", "lost"],
  filesystem: ["deleted", "lost"],
};

/** The status that upstream shows; null for what has none. */
export function shownStatus({ document }: Pick<Seen, "document">): string | null {
  const { status } = asObject(JSON.parse(document)) ?? {};
  return typeof status === "string" ? status : null;
}

/** Whether it is over, as far as upstream shows. */
export const isOver = (seen: Pick<Seen, "kind" | "document">): boolean =>
  OVER[seen.kind]?.includes(shownStatus(seen) ?? "") ?? false;

/** What exists there. `account`: only what carries this account's tag, on an upstream that others share. */
export const remains = (seen: readonly Seen[], account: number | null): Seen[] =>
  seen.filter((one) => (account === null || one.account === account) && !isOver(one));

const MOST_NAMED = 5;

/** `instance 17 (tg..., running), ssh_key 3 (laptop) and 4 more`. */
export function namesOf(remaining: readonly Seen[]): string {
  const named = remaining.slice(0, MOST_NAMED).map((one) => {
    const status = shownStatus(one);
    return `${one.kind} ${one.upstreamId} (${one.tag.slice(0, 80)}${status === null ? "" : `, ${status}`})`;
  });
  const more = remaining.length - named.length;
  return named.join(", ") + (more > 0 ? ` and ${more} more` : "");
}
