/**
 * Seats: on which upstream an account's compute lives. A seat, and the address and `shared` of an upstream with seats,
 * change only while no account has a resource of any kind there and lists that are asked for now show nothing. What the
 * accounts have is asked last, in the transaction that moves a seat or while the broker makes nothing new, so a launch
 * comes before the change and stops it, or after it.
 */
import type { Address } from "../../core/compute/control.ts";
import { LISTED_KINDS } from "../../core/compute/listing.ts";
import { namesOf, remains } from "../../core/compute/remains.ts";
import type { AccountId } from "../../core/ids.ts";
import type { UpstreamRow } from "../../core/routing/routes.ts";
import { inTime } from "../../gateway/wait.ts";
import type { AccountRow } from "../../platform/d1/accounts.ts";
import {
  cancelMove,
  leaveSeat,
  reserveSeat,
  type SeatOutcome,
  seatsAt,
  settleSeat,
  takeSeat,
} from "../../platform/d1/seats.ts";
import { findUpstream } from "../../platform/d1/upstreams.ts";
import type { AccountObject } from "../kit/account-object.ts";
import { type AdminContext, known } from "../kit/context.ts";
import { conflict, invalid, Problem } from "../kit/problem.ts";

/** Lists wait for room in the upstream's limits, so six of them may take a while; a client waits no longer, ms. */
const LISTED_WITHIN_MS = 45_000;
/** An upstream makes nothing new for so long while it is changed, ms. */
const CLOSED_MS = 120_000;
/** Accounts asked at once. */
const ASKED_AT_ONCE = 10;

type Counts = readonly { readonly kind: string; readonly count: number }[];

/** A new account's seat: refused before the account is made, where that is known before. */
export async function requireSeat(context: AdminContext, upstream: string, account: string | null): Promise<void> {
  await requireFree(context, await knownSeat(context, upstream), account);
}

/** Gives a new account its seat. */
export async function takeFirstSeat(context: AdminContext, account: AccountId, upstream: string): Promise<void> {
  refuseUnlessTaken(await takeSeat(context.books, account, upstream, context.now()), upstream);
}

/** Gives the account another seat, or none. Nothing of it may be left where it was. */
export async function moveSeat(
  context: AdminContext,
  { id: account, number }: AccountRow,
  object: AccountObject,
  to: string | null,
): Promise<void> {
  const state = known(await object.computeState(), "account", account);
  const from = state.upstream;
  // A call before this one may have broken off when the object had its seat already.
  if (from !== null) await settleSeat(context.books, account, from, context.now());
  if (from !== to) {
    const target = to === null ? null : await knownSeat(context, to);
    if (state.rows.length > 0) throw stillLive(kindsOf(state.rows), from);
    const old = from === null ? undefined : await findUpstream(context.books, from);
    if (old) await requireNothingLeft(context, old, old.shared ? number : null);
    if (target) await requireFree(context, target, account);
    if (target) await reserveAndMove(context, account, object, from, target.id);
    else await moveObject(account, object, from, null);
  }
  if (to === null) await leaveSeat(context.books, account);
}

async function reserveAndMove(
  context: AdminContext,
  account: AccountId,
  object: AccountObject,
  from: string | null,
  to: string,
): Promise<void> {
  const token = crypto.randomUUID();
  refuseUnlessTaken(await reserveSeat(context.books, account, to, token, context.now()), to);
  try {
    await moveObject(account, object, from, to);
  } catch (error) {
    // Without an answer the object may have moved: then its seat stays reserved until this call is sent again.
    if (error instanceof Problem) await cancelMove(context.books, account, token);
    throw error;
  }
  await settleSeat(context.books, account, to, context.now());
}

async function moveObject(account: AccountId, object: AccountObject, from: string | null, to: string | null) {
  const move = known(await object.moveSeat(from, to), "account", account);
  if (move.kind === "in_use") throw stillLive(move.live, from);
  if (move.kind === "elsewhere") {
    throw conflict("seat_moving", "Another call moves this account's seat. Send this again.", "compute_upstream");
  }
}

/**
 * Runs `change`, which gives an upstream another address or another `shared`, once nothing is there. Without seats
 * nobody's compute is there.
 */
export async function whileAtRest<Result>(
  context: AdminContext,
  stored: UpstreamRow,
  wanted: UpstreamRow,
  change: () => Promise<Result>,
): Promise<Result> {
  const moved = stored.baseUrl !== wanted.baseUrl || stored.shared !== wanted.shared;
  const seats = moved ? await seatsAt(context.books, stored.id) : [];
  if (seats.length === 0) return change();
  if (stored.shared && !wanted.shared && seats.length > 1) {
    const accounts = seats.map(({ account }) => `'${account}'`);
    throw conflict(
      "seats_taken",
      `'${stored.id}' seats ${accounts.slice(0, 5).join(", ")}${accounts.length > 5 ? ", ..." : ""}. Not shared it seats one: move the others first.`,
      "shared",
    );
  }
  const token = crypto.randomUUID();
  const broker = () => context.broker(stored.id);
  const closedMs = context.now();
  await reached(() => broker().close(stored.id, token, CLOSED_MS));
  try {
    for (let first = 0; first < seats.length; first += ASKED_AT_ONCE) {
      const some = seats.slice(first, first + ASKED_AT_ONCE);
      const states = await Promise.all(some.map(({ number }) => context.account(number).computeState()));
      for (const [index, state] of states.entries()) {
        const here = state?.rows.filter(({ upstream }) => upstream === stored.id) ?? [];
        if (here.length > 0) throw stillLive(kindsOf(here), stored.id, some[index]?.account);
      }
    }
    await requireNothingLeft(context, stored, null, wanted);
    if (context.now() - closedMs > CLOSED_MS / 2) {
      throw new Problem(503, "upstream_not_listed", `To look at '${stored.id}' took too long. Try again in a minute.`);
    }
    return await change();
  } finally {
    await broker()
      .close(stored.id, token, 0)
      .catch(() => undefined);
  }
}

async function knownSeat({ books }: AdminContext, upstream: string): Promise<UpstreamRow> {
  const row = await findUpstream(books, upstream);
  if (!row) throw invalid("compute_upstream", `There is no upstream '${upstream}'.`);
  return row;
}

/** A seat that an account may take: of a dedicated upstream, alone and with nothing there. */
async function requireFree(context: AdminContext, upstream: UpstreamRow, account: string | null): Promise<void> {
  if (upstream.shared) return;
  const other = (await seatsAt(context.books, upstream.id)).find((seat) => seat.account !== account);
  if (other) throw occupied(upstream.id, other.account);
  await requireNothingLeft(context, upstream, null);
}

/**
 * `account`: looks only for what carries this account's tag. `next`: where the upstream will be; that is looked at if
 * the old address gives no list any more. Stops at the first kind of which something is left.
 */
async function requireNothingLeft(
  context: AdminContext,
  { id, baseUrl }: UpstreamRow,
  account: number | null,
  next?: UpstreamRow,
): Promise<void> {
  const untilMs = context.now() + LISTED_WITHIN_MS;
  let at: Address | undefined;
  for (const kind of LISTED_KINDS) {
    const fresh = (late: Promise<never>) => Promise.race([context.broker(id).fresh(id, kind, at), late]);
    const listed = () => reached(() => inTime(untilMs - context.now(), brokerLate, fresh));
    let lists = await listed();
    if (!lists.ok && !at && next && next.baseUrl !== baseUrl) {
      at = { baseUrl: next.baseUrl, sealedApiKey: next.sealedApiKey };
      lists = await listed();
    }
    if (!lists.ok) {
      throw new Problem(
        503,
        "upstream_not_listed",
        `'${id}' gave no list of its ${kind}s now, so it is not known what is there. Check its address and credential, and try again in a minute.`,
      );
    }
    const left = remains(lists.seen, account);
    if (left.length === 0) continue;
    throw conflict(
      "upstream_not_empty",
      `'${id}' still shows ${namesOf(left)}. End that first: GET /admin/compute tells whose it is, POST /admin/compute/${id}/terminate ends what is nobody's.`,
    );
  }
}

function refuseUnlessTaken(outcome: SeatOutcome, upstream: string): void {
  switch (outcome.kind) {
    case "taken":
      return;
    case "occupied":
      throw occupied(upstream, outcome.by);
    case "unknown_upstream":
      throw invalid("compute_upstream", `There is no upstream '${upstream}'.`);
    case "moving":
      throw conflict(
        "seat_moving",
        `The account is being moved to '${outcome.to}'. Finish that by sending it again, or wait a minute.`,
        "compute_upstream",
      );
  }
}

const occupied = (upstream: string, by: string): Problem =>
  conflict(
    "seat_taken",
    `The upstream '${upstream}' seats the account '${by}'. Give each account an upstream of its own, or set \`shared\` on it.`,
    "compute_upstream",
  );

/** An account's resources are in the way of a change. */
export function stillLive(live: Counts, upstream: string | null, account?: string): Problem {
  const whose = account === undefined ? "The account" : `The account '${account}'`;
  const where = upstream === null ? "" : ` on '${upstream}'`;
  return conflict("compute_in_use", `${whose} has ${countsOf(live)}${where}. End and delete them first.`);
}

const countsOf = (live: Counts): string =>
  live.map(({ kind, count }) => `${count} ${kind}${count === 1 ? "" : "s"}`).join(", ");

function kindsOf(rows: readonly { readonly row: { readonly kind: string } }[]): Counts {
  const kinds = new Set(rows.map(({ row }) => row.kind));
  return [...kinds].map((kind) => ({ kind, count: rows.filter(({ row }) => row.kind === kind).length }));
}

const brokerLate = () => new Error("the broker did not answer in time");

/** A broker that cannot be asked is a 503, not a defect. */
export async function reached<T>(ask: () => Promise<T>): Promise<T> {
  try {
    return await ask();
  } catch {
    throw new Problem(503, "broker_unavailable", "The upstream's broker cannot be reached now. Try again.");
  }
}
