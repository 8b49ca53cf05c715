/** The account's seat and what is on it. Checked and changed in one transaction, so a launch comes before or after. */
import type { KnownTag, LiveKinds, SeatMove } from "../../../core/compute/calls.ts";
import { isMachine } from "../../../core/compute/resource.ts";
import type { AccountState } from "../state.ts";

export const liveKinds = (state: AccountState): LiveKinds => state.resources.liveKinds();

/** Inference instances by the hour live on no seat, but keep the account. */
export function hourlyKinds(state: AccountState): { kind: string; count: number }[] {
  const count = state.inference.live().length;
  return count === 0 ? [] : [{ kind: "inference instance", count }];
}

export function moveSeat(state: AccountState, from: string | null, to: string | null, nowMs: number): SeatMove {
  const { computeUpstream, deletedAtMs } = state.tenants.account();
  if (computeUpstream === to) return { kind: "moved" };
  if (computeUpstream !== from || deletedAtMs !== null) return { kind: "elsewhere" };
  const live = liveKinds(state);
  if (live.length > 0) return { kind: "in_use", live };
  state.tenants.amend({ computeUpstream: to }, state.money(), nowMs);
  return { kind: "moved" };
}

export function knownTags(state: AccountState, tags: readonly string[]): readonly KnownTag[] {
  return tags.flatMap((tag) => {
    const found = state.resources.byTag(tag);
    if (!found) return [];
    const { row, upstream } = found;
    return [
      {
        tag,
        id: row.id,
        upstream,
        live: state.resources.isLive(row.id),
        gpus: isMachine(row) ? row.launched.gpuCount * row.wants.replicas : null,
        hourlyPriceNanoUsd: isMachine(row) ? row.rental.rate.priceNanoUsd : null,
      },
    ];
  });
}
