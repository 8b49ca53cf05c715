/** Usage events that could not be written, kept as received for the operator to look into. */
import type { AccountNumber } from "../../core/ids.ts";

export interface SetAside {
  readonly account: AccountNumber;
  /** May be missing or not an id, if the event is malformed. */
  readonly eventId: string;
  readonly problem: string;
  readonly event: unknown;
}

/** Longest text kept of one event. */
const TEXT_KEPT = 20_000;

/** Setting the same event aside twice stores it once. */
export async function setAside(books: D1Database, events: readonly SetAside[], nowMs: number): Promise<void> {
  const insert = books.prepare("insert or ignore into usage_set_aside values (?1, ?2, ?3, ?4, ?5)");
  await books.batch(
    events.map(({ account, eventId, problem, event }) =>
      insert.bind(account, eventId, problem.slice(0, 500), JSON.stringify(event).slice(0, TEXT_KEPT), nowMs),
    ),
  );
}
