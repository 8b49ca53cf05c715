/**
 * What a tenant is told after a call upstream: in our own names and ids, and of images only what upstream confirmed.
 */
import type { AnyCall } from "../../../core/compute/facts.ts";
import { abandonImage, isImageCall, isUnanswered } from "../../../core/compute/image-life.ts";
import type { ComputeRefusal } from "../../../core/compute/refusals.ts";
import type { ResourceRow } from "../../../core/compute/resource.ts";
import { ownWords } from "../../../core/compute/upstream-text.ts";
import type { AccountState } from "../state.ts";
import type { Placed } from "../tables/resources.ts";
import { store } from "./resource-rows.ts";

/** Upstream's text with our names and ids. `row`: the row of the call, which may live no longer. */
export function inOwnWords(state: AccountState, row: ResourceRow, refusal: ComputeRefusal): ComputeRefusal {
  if (refusal.kind !== "upstream_refused") return refusal;
  const rows = state.resources.live().map((placed) => placed.row);
  return { ...refusal, text: ownWords(refusal.text, [row, ...rows]) };
}

/** The row after its call. An image that upstream has not confirmed by now is nothing that a tenant can rely on. */
export function standing(
  state: AccountState,
  { placed, call }: { readonly placed: Placed; readonly call: AnyCall },
  nowMs: number,
): ResourceRow | "unanswered" | undefined {
  const now = state.resources.find(placed.row.id);
  if (now?.row.kind !== "image" || !isImageCall(call) || !isUnanswered(now.row, call)) return now?.row;
  store(state, { ...now, row: abandonImage(now.row, nowMs) }, [], nowMs);
  return "unanswered";
}
