/**
 * Records who changed what. The row is written before the change, so no change is made without one; after it, what
 * differs. A change that was refused leaves no row. One that nobody answered, since something broke off, stays
 * `unknown`: it may have been made.
 */
import { difference } from "../../core/account/change-record.ts";
import { beginChange, type ChangeActor, changeDone, changeRefused } from "../../platform/d1/changes.ts";
import type { AdminContext } from "./context.ts";
import { Problem } from "./problem.ts";
import type { CarriedOut, ChangeCall } from "./route.ts";

export async function recordChange(
  { books, log, now }: AdminContext,
  actor: ChangeActor,
  call: ChangeCall,
  account: string | null,
): Promise<CarriedOut> {
  const { route, target, fields, before, carryOut } = call;
  const stood = await before();
  const id = await beginChange(books, { atMs: now(), actor, account, action: route.id, target, fields });
  const unrecorded = (error: unknown) => log({ event: "change_record_failed", change: id, error: String(error) });
  let reply: CarriedOut;
  try {
    reply = await carryOut();
  } catch (error) {
    if (error instanceof Problem && error.status < 500) await changeRefused(books, id).catch(unrecorded);
    throw error;
  }
  const stands = reply instanceof Response || route.method === "delete" ? null : reply.body;
  try {
    await changeDone(books, id, { ...difference(stood, stands), account: accountIn(stands, target) });
  } catch (error) {
    // The change is made. Its row says less than it could.
    unrecorded(error);
  }
  return reply;
}

/** The account that a resource without one in its path belongs to. */
function accountIn(body: unknown, target: string): string | null {
  const { id, account } = (body ?? {}) as { readonly id?: unknown; readonly account?: unknown };
  if (typeof account === "string") return account;
  return target === "/admin/accounts" && typeof id === "string" ? id : null;
}
