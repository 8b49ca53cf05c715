/**
 * Records who changed what. The row is written before the change, so no change is made without one; after it, what
 * differs. A change that was refused leaves no row, unless a part of it was made. One that nobody answered, since
 * something broke off, stays `unknown`: it may have been made.
 */
import { CHANGES_A_DAY, difference } from "../../core/account/change-record.ts";
import { toHttp } from "../../core/http-refusal.ts";
import { beginChange, type ChangeActor, changeDone, changeRefused, pruneChangesOf } from "../../platform/d1/changes.ts";
import type { AdminContext } from "./context.ts";
import { Problem } from "./problem.ts";
import type { CarriedOut, ChangeCall } from "./route.ts";

/** Of paths, which name what they change: ids are shorter. */
const LONGEST_TARGET = 500;
/** An account's old rows are looked for at every so manieth change. */
const PRUNED_EVERY = 50;

export async function recordChange(
  { books, log, now }: AdminContext,
  actor: ChangeActor,
  call: ChangeCall,
  account: string | null,
): Promise<CarriedOut> {
  const { route, target, fields, before, carryOut } = call;
  const stood = await before();
  const change = { atMs: now(), actor, account, action: route.id, target: target.slice(0, LONGEST_TARGET), fields };
  const id = await beginChange(books, change, CHANGES_A_DAY);
  if (id === null) throw tooMany();
  const unrecorded = (error: unknown) => log({ event: "change_record_failed", change: id, error: String(error) });
  const differs = (stands: unknown, outcome: "done" | "partly") =>
    changeDone(books, id, {
      ...difference(stood, stands, actor.kind),
      account: accountIn(stands, target),
      outcome,
    });
  let reply: CarriedOut;
  try {
    reply = await carryOut();
  } catch (error) {
    if (error instanceof Problem && error.status < 500) {
      const end = error.partly ? async () => differs(await before(), "partly") : () => changeRefused(books, id);
      await end().catch(unrecorded);
    }
    throw error;
  }
  const stands = reply instanceof Response || route.method === "delete" ? null : reply.body;
  try {
    await differs(stands, "done");
    if (actor.kind === "key" && account !== null && id % PRUNED_EVERY === 0) await pruneChangesOf(books, account);
  } catch (error) {
    // The change is made. Its row says less than it could.
    unrecorded(error);
  }
  return reply;
}

function tooMany(): Problem {
  const { code, message } = toHttp({
    kind: "too_many_changes",
    allowed: CHANGES_A_DAY,
    in: "day",
    retryAfterMs: 60_000,
  });
  return new Problem(429, code, message);
}

/** The account that a resource without one in its path belongs to. */
function accountIn(body: unknown, target: string): string | null {
  const { id, account } = (body ?? {}) as { readonly id?: unknown; readonly account?: unknown };
  if (typeof account === "string") return account;
  return target === "/admin/accounts" && typeof id === "string" ? id : null;
}
