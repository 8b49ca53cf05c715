/**
 * Deliveries of alerts to webhooks. A delivery is queued, then claimed, then tried; each mark expires by itself, so
 * that a try that broke off is made again, and a delivery that was queued twice is tried once at a time.
 */
import type { StoredAlert } from "../../core/alerts/message.ts";
import { pauseMs } from "../../core/alerts/retries.ts";
import { cutPage } from "./cut-page.ts";
import { takeTurn, type WebhookRow } from "./webhooks.ts";

/** A message of the queue that was lost is sent again after this. */
const QUEUED_MS = 120_000;
/** A try that broke off is made again after this: one lasts ten seconds at most. */
const CLAIMED_MS = 60_000;
/** A message may come this much early. */
const EARLY_MS = 1_500;

/** Marks the deliveries that are due as queued and gives them. */
export async function takeDue(books: D1Database, nowMs: number, most: number): Promise<readonly number[]> {
  const { results } = await books
    .prepare(
      `update webhook_deliveries set queued_until_ms = ?1 + ${QUEUED_MS} where seq in (
         select seq from webhook_deliveries where state = 'pending' and next_ms <= ?1 and queued_until_ms <= ?1
         order by next_ms limit ?2) returning seq`,
    )
    .bind(nowMs, most)
    .all<{ seq: number }>();
  return results.map(({ seq }) => seq);
}

/** They did not get into the queue. */
export async function notQueued(books: D1Database, seqs: readonly number[]): Promise<void> {
  await books
    .prepare("update webhook_deliveries set queued_until_ms = 0 where seq in (select value from json_each(?1))")
    .bind(JSON.stringify(seqs))
    .run();
}

export interface Claimed {
  readonly seq: number;
  /** Failed tries before this one. */
  readonly attempts: number;
  readonly webhook: WebhookRow;
  readonly alert: StoredAlert;
}

/**
 * `nothing`: it is not due, or another consumer has it. `backlogMs`: its webhook has a pause, and this much waits
 * there.
 */
export type Claim = Claimed | "nothing" | { readonly backlogMs: number };

export async function claim(books: D1Database, seq: number, nowMs: number): Promise<Claim> {
  const [mine] = (
    await books
      .prepare(
        `update webhook_deliveries set claimed_until_ms = ?2 + ${CLAIMED_MS}
         where seq = ?1 and state = 'pending' and next_ms <= ?2 + ${EARLY_MS} and claimed_until_ms <= ?2
         returning webhook, alert, attempts`,
      )
      .bind(seq, nowMs)
      .all<{ webhook: string; alert: string; attempts: number }>()
  ).results;
  if (!mine) return "nothing";
  const webhook = await takeTurn(books, mine.webhook, nowMs);
  if (!webhook) return { backlogMs: await backlogOf(books, mine.webhook) };
  const alert = await books
    .prepare("select id, type, account, at_ms as atMs, data from alerts where id = ?1")
    .bind(mine.alert)
    .first<Omit<StoredAlert, "data"> & { data: string }>();
  return alert
    ? { seq, attempts: mine.attempts, webhook, alert: { ...alert, data: JSON.parse(alert.data) } }
    : "nothing";
}

const backlogOf = async (books: D1Database, webhook: string): Promise<number> =>
  (await books
    .prepare(
      `select pause_ms * (select count(*) from webhook_deliveries where webhook = ?1 and state = 'pending') as backlog
       from webhooks where id = ?1`,
    )
    .bind(webhook)
    .first<number>("backlog")) ?? 0;

/** It is tried again at `nextMs`. `queued`: by a message of the queue that comes then. */
export const putOff = (books: D1Database, seq: number, nextMs: number, queued: boolean): D1PreparedStatement =>
  books
    .prepare("update webhook_deliveries set next_ms = ?2, claimed_until_ms = 0, queued_until_ms = ?3 where seq = ?1")
    .bind(seq, nextMs, queued ? nextMs + QUEUED_MS : 0);

interface Tried {
  readonly status: number | null;
  readonly problem: string | null;
  readonly ms: number;
}

/** A receiver that is back gets what was put off meanwhile, once it is queued. */
export const noteDelivered = (books: D1Database, claimed: Claimed, tried: Tried, nowMs: number) => [
  note(books, claimed, "delivered", tried, nowMs),
  books
    .prepare("update webhooks set failing_since_ms = null, pause_ms = ?2 where id = ?1")
    .bind(claimed.webhook.id, pauseMs(false, tried.ms)),
  ...(isBack(claimed)
    ? [
        books
          .prepare(
            `update webhook_deliveries set next_ms = ?2, queued_until_ms = 0
             where webhook = ?1 and state = 'pending' and attempts = 0 and claimed_until_ms <= ?2`,
          )
          .bind(claimed.webhook.id, nowMs),
      ]
    : []),
];

/** Whether it failed until now. */
export const isBack = ({ webhook }: Claimed): boolean => webhook.failingSinceMs !== null;

/** `over`: it is not tried again. */
export const noteFailed = (books: D1Database, claimed: Claimed, tried: Tried, over: boolean, nowMs: number) => [
  note(books, claimed, over ? "failed" : "pending", tried, nowMs),
  books
    .prepare("update webhooks set failing_since_ms = coalesce(failing_since_ms, ?2), pause_ms = ?3 where id = ?1")
    .bind(claimed.webhook.id, nowMs, pauseMs(true, tried.ms)),
];

const note = (
  books: D1Database,
  { seq, attempts }: Claimed,
  state: "pending" | "delivered" | "failed",
  { status, problem, ms }: Tried,
  nowMs: number,
): D1PreparedStatement =>
  books
    .prepare(
      `update webhook_deliveries set state = ?2, attempts = ?3, status = ?4, problem = ?5, ms = ?6, tried_ms = ?7,
         claimed_until_ms = 0 where seq = ?1 and state = 'pending'`,
    )
    .bind(seq, state, attempts + 1, status, problem, ms, nowMs);

export interface DeliveryRow {
  readonly seq: number;
  readonly alert: string;
  readonly type: string;
  readonly state: "pending" | "delivered" | "failed";
  readonly attempts: number;
  readonly status: number | null;
  readonly problem: string | null;
  readonly ms: number | null;
  readonly createdMs: number;
  readonly triedMs: number | null;
  readonly nextMs: number;
}

/** Newest first. */
export async function listDeliveries(
  books: D1Database,
  webhook: string,
  { cursor, limit, state }: { cursor: string | null; limit: number; state: string | undefined },
) {
  const { results } = await books
    .prepare(
      `select d.seq, d.alert, alerts.type, d.state, d.attempts, d.status, d.problem, d.ms, d.created_ms as createdMs,
         d.tried_ms as triedMs, d.next_ms as nextMs
       from webhook_deliveries as d join alerts on alerts.id = d.alert
       where d.webhook = ?1 and d.seq < ?2 and (?3 is null or d.state = ?3) order by d.seq desc limit ?4`,
    )
    .bind(webhook, cursor === null ? Number.MAX_SAFE_INTEGER : Number(cursor), state ?? null, limit + 1)
    .all<DeliveryRow>();
  return cutPage(results, { cursor, limit }, ({ seq }) => String(seq));
}

/** Makes it pending from now on, with all its tries. False if it is under way, or there is none. */
export async function resend(books: D1Database, webhook: string, alert: string, nowMs: number): Promise<boolean> {
  const { meta } = await books
    .prepare(
      `update webhook_deliveries set state = 'pending', attempts = 0, next_ms = ?3, queued_until_ms = 0
       where webhook = ?1 and alert = ?2 and state <> 'pending'`,
    )
    .bind(webhook, alert, nowMs)
    .run();
  return meta.changes > 0;
}

export async function findDelivery(books: D1Database, webhook: string, alert: string): Promise<string | undefined> {
  const row = await books
    .prepare("select state from webhook_deliveries where webhook = ?1 and alert = ?2")
    .bind(webhook, alert)
    .first<{ state: string }>();
  return row?.state;
}
