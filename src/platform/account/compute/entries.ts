/** Ledger entries as they are read: those of rentals name the resource that they paid for. */
import type { EntryResource, LedgerEntry, Page, PageRequest } from "../../../core/account/tenant.ts";
import { isMachine, isStorage } from "../../../core/compute/resource.ts";
import type { AccountState } from "../state.ts";
import { resourceIn } from "./rental-bookings.ts";

export function entriesOf(state: AccountState, page: PageRequest): Page<LedgerEntry> {
  const found = state.ledger.entries(page);
  // Many entries of a page are one resource's.
  const known = new Map<number, EntryResource | undefined>();
  const data = found.data.map((entry) => {
    const id = resourceIn(entry.callId);
    if (id === undefined) return entry;
    if (!known.has(id)) known.set(id, resourceOf(state, id));
    const resource = known.get(id);
    return resource ? { ...entry, resource } : entry;
  });
  return { ...found, data };
}

function resourceOf(state: AccountState, id: number): EntryResource | undefined {
  const row = state.resources.find(id)?.row;
  if (!row) return undefined;
  const name = isMachine(row) ? row.launched.name : isStorage(row) ? row.asked.name : row.name;
  return { kind: row.kind, id, name };
}
