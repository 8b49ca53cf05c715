/** Saves the SSH key of a launch that upstream accepted, or may have: the account then has it in its list. */
import { launchedKey } from "../../../core/compute/key-rules.ts";
import { isMachine, type ResourceRow } from "../../../core/compute/resource.ts";
import { formatTag, parseTag } from "../../../core/compute/tag.ts";
import type { AccountState } from "../state.ts";
import type { Placed } from "../tables/resources.ts";
import { store } from "./resource-rows.ts";

/** `before`: the row before the answer or list. Repeats change nothing: a key is kept once. */
export function saveLaunchKey(
  state: AccountState,
  before: ResourceRow,
  { upstream, row }: Placed,
  nowMs: number,
): void {
  if (!isMachine(row) || row.launched.sshPublicKey === null || before.create !== "unknown") return;
  if (row.create === "refused" || row.create === "lost") return;
  const launch = parseTag(row.tag);
  if (!launch) return;
  const id = state.resources.nextId();
  const rows = state.resources.live().map((placed) => placed.row);
  const key = launchedKey(row, rows, { id, tag: formatTag({ ...launch, id }), nowMs });
  if (key) store(state, { upstream, priceRule: "", row: key }, [], nowMs);
}
