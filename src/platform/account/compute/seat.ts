/** The account's seat and what is on it. Checked and changed in one transaction, so a launch comes before or after. */
import type { KnownTag, LiveKinds, SeatMove } from "../../../core/compute/calls.ts";
import { isMachine } from "../../../core/compute/resource.ts";
import type { Books } from "../state.ts";

export const liveKinds = (books: Books): LiveKinds => books.resources.liveKinds();

/** Inference instances by the hour live on no seat, but keep the account. */
export function hourlyKinds(books: Books): { kind: string; count: number }[] {
  const count = books.inference.live().length;
  return count === 0 ? [] : [{ kind: "inference instance", count }];
}

export function moveSeat(books: Books, from: string | null, to: string | null, nowMs: number): SeatMove {
  const { computeUpstream, deletedAtMs } = books.tenants.account();
  if (computeUpstream === to) return { kind: "moved" };
  if (computeUpstream !== from || deletedAtMs !== null) return { kind: "elsewhere" };
  const live = liveKinds(books);
  if (live.length > 0) return { kind: "in_use", live };
  books.tenants.amend({ computeUpstream: to }, books.money(), nowMs);
  return { kind: "moved" };
}

export function knownTags(books: Books, tags: readonly string[]): readonly KnownTag[] {
  return tags.flatMap((tag) => {
    const found = books.resources.byTag(tag);
    if (!found) return [];
    const { row, upstream } = found;
    return [
      {
        tag,
        id: row.id,
        upstream,
        live: books.resources.isLive(row.id),
        gpus: isMachine(row) ? row.launched.gpuCount * row.wants.replicas : null,
        hourlyPriceNanoUsd: isMachine(row) ? row.rental.rate.priceNanoUsd : null,
      },
    ];
  });
}
