/**
 * Who manages keys and teams: the operator in any account, or a tenant's key in its own. Both use the same routes
 * (keys.ts, teams.ts). The account object decides what each may do; this file turns its refusals into HTTP errors.
 */

import type { AccountService } from "../../core/account/account-service.ts";
import type { Used } from "../../core/account/account-views.ts";
import {
  type Actor,
  type Ceiling,
  type Denial,
  type KeyAction,
  type ManagedKey,
  type ManagedTeam,
  manages,
  type NotManaged,
  type TeamAction,
} from "../../core/account/permissions.ts";
import { toHttp } from "../../core/http-refusal.ts";
import type { AccountId, AccountNumber } from "../../core/ids.ts";
import { dropKey, enterKey, nameKey, nameTeam } from "../../platform/d1/key-index.ts";
import type { AdminContext } from "./context.ts";
import { conflict, invalid, notFound, Problem, type ProblemStatus, tooMany } from "./problem.ts";
import type { RefusalStatus } from "./route.ts";

/** What managing needs of the account's object. */
type ManagedObject = Pick<AccountService, "view" | "manage" | "keys" | "key" | "teams" | "team">;

export interface Manager {
  readonly actor: Actor;
  readonly ceiling: Ceiling;
  readonly account: AccountId;
  readonly number: AccountNumber;
  readonly object: ManagedObject;
  readonly context: AdminContext;
}

/** Where keys and teams are managed, and by whom. */
export interface ManagedAt<Work> {
  /** The path of the account. */
  readonly base: "/admin/accounts/{account}" | "/account";
  /** The refusals of these calls, besides those of every call of the API. */
  readonly refusals: readonly RefusalStatus[];
  /** Finds the caller and the account. A deleted account may be read. */
  managerOf(work: Work, params: { readonly account: string }, purpose: "read" | "change"): Promise<Manager>;
}

type Done<Managed> = Exclude<Managed, NotManaged>;

/** The index of keys gets a new secret first and the name afterwards: see d1/key-index.ts. */
export async function manageKey(
  { object, actor, account, context }: Manager,
  action: KeyAction,
): Promise<Done<ManagedKey>> {
  const { books } = context;
  const secret = "lastFour" in action ? { account, key: action.id, lastFour: action.lastFour } : undefined;
  const name = action.kind === "create_key" ? action.fields.name : null;
  const entered = secret !== undefined && (await enterKey(books, { ...secret, name }));
  const managed = await object.manage(actor, action);
  const made = managed?.kind === "key" ? managed : undefined;
  await indexed(context, async () => {
    if (entered && !made?.anew) await dropKey(books, secret);
    const changed = action.kind === "amend_key" && action.changes.name !== undefined;
    if (made && (changed || (secret && !made.anew))) await nameKey(books, { account, key: made.key.id, ...made.key });
  });
  if (managed?.kind === "key") return managed;
  throw problemOf(managed, account, action);
}

/** The change is made: an index that lags is no reason to say that it is not. */
const indexed = ({ log }: AdminContext, work: () => Promise<void>): Promise<void> =>
  work().catch((error) => log({ event: "key_not_indexed", error: String(error) }));

export async function manageTeam(
  { object, actor, account, context }: Manager,
  action: TeamAction,
): Promise<Done<ManagedTeam>> {
  const managed = await object.manage(actor, action);
  if (managed?.kind !== "team") throw problemOf(managed, account, action);
  const { id, name } = managed.team;
  if (action.kind !== "delete_team") await indexed(context, () => nameTeam(context.books, account, id, name));
  return managed;
}

/** Throws unless the caller may manage; for routes that only read. */
export function requireManager({ ceiling }: Manager): void {
  if (!manages(ceiling)) throw deniedProblem({ why: "role" });
}

function problemOf(outcome: NotManaged | undefined, account: AccountId, action: KeyAction | TeamAction): Problem {
  const what = action.kind.endsWith("_team") ? "team" : "key";
  switch (outcome?.kind) {
    case undefined:
      return notFound("account", account);
    case "account_deleted":
      return conflict("account_deleted", `The account '${account}' is deleted.`, "account");
    case "unknown":
      return notFound(what, action.id);
    case "ended":
      return what === "team"
        ? conflict("team_deleted", `The team '${action.id}' is deleted.`, "team")
        : conflict("key_revoked", `The key '${action.id}' is revoked. Make a new one.`, "key");
    case "too_many":
      return tooMany(`${what}s`, outcome.most);
    case "no_team":
      return invalid("team", "`team`: there is no live team of this id in this account.");
    case "compute_not_enabled":
      return invalid(
        "scopes",
        "`scopes`: `compute` needs an account that is enabled for compute. The operator sets `compute_enabled` on it.",
      );
    case "denied":
      return deniedProblem(outcome.denial);
    case "refused": {
      const http = toHttp(outcome.refusal);
      return new Problem(http.status as ProblemStatus, http.code, http.message, http.param);
    }
  }
}

function deniedProblem(denial: Denial): Problem {
  switch (denial.why) {
    case "role":
      return new Problem(403, "role_not_allowed", "Only keys of the roles owner and admin may do this.");
    case "own_key":
      return new Problem(403, "own_key", "A key does not change itself. Use another owner's or admin's key.", "key");
    case "team_key":
      return new Problem(403, "role_not_allowed", "A key that belongs to a team does not manage teams.");
    case "exceeds":
      return new Problem(
        403,
        "more_than_yours",
        `\`${denial.field}\` would be more than your own key has. Ask for less, or use a key that has it.`,
        denial.field,
      );
  }
}

/** Keys or teams as an answer has them, with what each spent. */
export async function withUsed<Kind extends "keys" | "teams", Row extends { readonly id: string }, Shown>(
  { object }: Manager,
  kind: Kind,
  rows: readonly Row[],
  serialize: (row: Row, used?: Used) => Shown,
): Promise<Shown[]> {
  const used = await object.view("used", { [kind]: rows.map(({ id }) => id) });
  return rows.map((row, index) => serialize(row, used?.[index]));
}

/** One of them. */
export async function oneWithUsed<Kind extends "keys" | "teams", Row extends { readonly id: string }, Shown>(
  manager: Manager,
  kind: Kind,
  row: Row,
  serialize: (row: Row, used?: Used) => Shown,
): Promise<Shown> {
  return (await withUsed(manager, kind, [row], serialize))[0] ?? serialize(row);
}
