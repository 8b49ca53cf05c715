/** Closes the account: its keys stop, its ledger stays, names, metadata and notes go. What still costs money is in the way. */
import type { Closing } from "../../core/account/account-service.ts";
import { hourlyKinds, liveKinds } from "./compute/seat.ts";
import { expireDue } from "./expiry.ts";
import type { Books } from "./state.ts";

export function closeAccount(books: Books, nowMs: number): Closing {
  expireDue(books, nowMs);
  const live = [...liveKinds(books), ...hourlyKinds(books)];
  if (live.length > 0) return { kind: "compute_live", live };
  if (books.openHolds > 0) return { kind: "holds_open", openHolds: books.openHolds };
  books.tenants.close(nowMs);
  books.keys.forgetNames();
  books.resources.forgetNames();
  books.ledger.forgetNotes();
  return { kind: "closed" };
}
