/**
 * `/admin/accounts`: tenants. Creation has three repeatable steps (row in the books, object, opening balance). One that
 * broke off is finished by sending it again with the same id.
 */

import * as z from "zod/mini";
import type { AccountService } from "../../core/account/account-service.ts";
import { READERS } from "../../core/account/operators.ts";
import type { Account, AccountFields, Changes } from "../../core/account/tenant.ts";
import { NO_LIMITS, STORAGE_GRACE_DAYS } from "../../core/account/tenant.ts";
import { formatUsd, toUsd } from "../../core/pricing/money.ts";
import { NO_PLAN, planAt } from "../../core/pricing/prices.ts";
import {
  accountMadeBy,
  enterAccount,
  findAccount,
  listAccounts,
  markDeleted,
  markOpened,
  renameAccount,
} from "../../platform/d1/accounts.ts";
import { forgetSeats } from "../../platform/d1/seats.ts";
import { type AdminContext, type AdminRoutes, known, theAccount, theLiveAccount } from "../kit/context.ts";
import { Deleted, deleted, listOf, numberedPage, pageRequest } from "../kit/fields.ts";
import { conflict, invalid, Problem } from "../kit/problem.ts";
import { answers, created, ok, route } from "../kit/route.ts";
import {
  limitsFrom,
  limitsIn,
  type PlanBody,
  planFrom,
  serializeLimits,
  serializePlan,
  toIso,
  toIsoOrNull,
} from "../kit/serializers.ts";
import { someAtOnce } from "../kit/some-at-once.ts";
import { AccountAnswer, AccountBody, AccountPatch } from "./account-schema.ts";
import { refusePlanLoss } from "./alias-loss.ts";
import { fromTime } from "./model-rules.ts";
import { moveSeat, requireSeat, stillLive, takeFirstSeat } from "./seats.ts";

const OPENING_REFERENCE = "opening";
/** Listing asks each account's object: a Worker may make a bounded number of calls. */
const MOST_LISTED = 100;

const serializeAccount = (account: Account, nowMs: number) => ({
  id: account.id,
  number: account.number,
  name: account.name,
  blocked: account.blocked,
  bills_monthly: account.billsMonthly,
  credit_limit_usd: toUsd(account.creditLimitNanoUsd),
  low_balance_usd: (account.lowBalanceNanoUsd ?? null) === null ? null : toUsd(account.lowBalanceNanoUsd ?? 0),
  compute_enabled: account.computeEnabled,
  compute_upstream: account.computeUpstream,
  storage_grace_days: account.storageGraceDays,
  on_disconnect: account.onDisconnect,
  plan: serializePlan(planAt(account, nowMs)),
  next_plan:
    account.nextPlan && account.nextPlan.fromMs > nowMs
      ? { ...serializePlan(account.nextPlan.plan), from: toIso(account.nextPlan.fromMs) }
      : null,
  balance_usd: toUsd(account.balanceNanoUsd),
  held_usd: toUsd(account.heldNanoUsd),
  created_at: toIso(account.createdAtMs),
  deleted_at: toIsoOrNull(account.deletedAtMs),
  ...serializeLimits(account.limits),
});

const NEW_ACCOUNT: Omit<AccountFields, "name"> = {
  blocked: false,
  billsMonthly: false,
  creditLimitNanoUsd: 0,
  computeEnabled: false,
  computeUpstream: null,
  storageGraceDays: STORAGE_GRACE_DAYS,
  onDisconnect: "cancel",
  plan: NO_PLAN,
  nextPlan: null,
  limits: NO_LIMITS,
};

/** Only the fields that a body names. */
function changesFrom(body: z.output<typeof AccountPatch>, nowMs: number): Changes<AccountFields> {
  const limits = limitsIn(body);
  return {
    ...(body.name !== undefined && { name: body.name }),
    ...(body.blocked !== undefined && { blocked: body.blocked }),
    ...(body.bills_monthly !== undefined && { billsMonthly: body.bills_monthly }),
    ...(body.credit_limit_usd !== undefined && { creditLimitNanoUsd: body.credit_limit_usd }),
    ...(body.low_balance_usd !== undefined && { lowBalanceNanoUsd: body.low_balance_usd }),
    ...(body.compute_upstream !== undefined && { computeUpstream: body.compute_upstream }),
    ...(body.storage_grace_days !== undefined && { storageGraceDays: body.storage_grace_days }),
    ...(body.compute_enabled !== undefined && { computeEnabled: body.compute_enabled }),
    ...(body.on_disconnect !== undefined && { onDisconnect: body.on_disconnect }),
    ...(body.next_plan === null && { nextPlan: null }),
    ...(body.plan !== undefined && planChange(body.plan, nowMs)),
    ...(limits && { limits }),
  };
}

/** A plan to come stands beside the one that holds. */
function planChange({ from, ...body }: PlanBody & { from?: number | undefined }, nowMs: number) {
  const plan = planFrom(body);
  const fromMs = fromTime(from, nowMs, "plan.from");
  return fromMs > nowMs ? { nextPlan: { fromMs, plan } } : { plan };
}

const create = route({
  id: "createAccount",
  method: "post",
  path: "/admin/accounts",
  summary: "Make an account",
  body: AccountBody,
  answers: { 201: answers("The account", AccountAnswer) },
});
const list = route({
  id: "listAccounts",
  method: "get",
  path: "/admin/accounts",
  roles: READERS,
  summary: `List the live accounts, at most ${MOST_LISTED} in an answer`,
  query: z.strictObject(numberedPage),
  answers: { 200: answers("Accounts in the order of their numbers", listOf(AccountAnswer)) },
});
const get = route({
  id: "getAccount",
  method: "get",
  path: "/admin/accounts/{account}",
  roles: READERS,
  summary: "Read an account",
  answers: { 200: answers("The account", AccountAnswer) },
});
const patch = route({
  id: "updateAccount",
  method: "patch",
  path: "/admin/accounts/{account}",
  roles: {
    finance: ["plan", "next_plan", "allow_loss", "credit_limit_usd", "low_balance_usd", "bills_monthly"],
    support: ["blocked"],
  },
  summary: "Change what is named, leave the rest",
  body: AccountPatch,
  answers: { 200: answers("The account", AccountAnswer) },
});
const remove = route({
  id: "deleteAccount",
  method: "delete",
  path: "/admin/accounts/{account}",
  summary:
    "Delete an account: keys stop; names, own aliases and instances go; the ledger stays. 409 while calls hold money or compute runs",
  answers: { 200: answers("Deleted", Deleted) },
});

export function addAccounts(api: AdminRoutes): void {
  api.add(create, async ({ work: context, body, making }) => {
    const made = await makeAccount(context, body, making.ref);
    return created(serializeAccount(made, context.now()));
  });

  api.add(list, async ({ work: context, query }) => {
    const { limit, cursor } = pageRequest(query);
    const page = await listAccounts(context.books, { limit: Math.min(limit, MOST_LISTED), cursor });
    const accounts = await someAtOnce(page.data, ({ number }) => context.account(number).describe());
    const data = accounts
      .filter((account) => account !== undefined)
      .map((account) => serializeAccount(account, context.now()));
    return ok({ data, next_cursor: page.nextCursor });
  });

  api.add(get, async ({ work: context, params }) => {
    const { account: id } = params;
    const { object } = await theAccount(context, id);
    return ok(serializeAccount(known(await object.describe(), "account", id), context.now()));
  });

  api.add(patch, async ({ work: context, params, body }) => {
    const { account: id } = params;
    const { row, object } = await theLiveAccount(context, id);
    const { compute_upstream: seat, ...rest } = body;
    const changes = changesFrom(rest, context.now());
    if (body.plan && !body.allow_loss) {
      const before = known(await object.describe(), "account", id);
      await refusePlanLoss(context, id, before, { ...before, ...changes });
    }
    if (seat !== undefined) await moveSeat(context, row, object, seat);
    const changed = await amended(object, id, changes, seat !== undefined);
    if (body.name !== undefined) await renameAccount(context.books, row, changed.name);
    return ok(serializeAccount(changed, context.now()));
  });

  api.add(remove, async ({ work: context, params }) => {
    const { account: id } = params;
    const { row, object } = await theAccount(context, id);
    const end = known(await object.close(), "account", id);
    if (end.kind === "compute_live") throw stillLive(end.live, null);
    if (end.kind === "holds_open") {
      throw conflict(
        "holds_open",
        `${end.openHolds} calls of the account are in flight. Delete it when they have ended.`,
      );
    }
    await forgetSeats(context.books, row.id);
    if (await markDeleted(context.books, row, context.now())) await context.edge.routingChanged();
    return ok(deleted(id));
  });
}

/** `moved`: a part of the change is made already. */
async function amended(object: AccountService, id: string, changes: Changes<AccountFields>, moved: boolean) {
  try {
    return known(await object.amend(changes), "account", id);
  } catch (error) {
    if (error instanceof Problem) error.partly = moved;
    throw error;
  }
}

/** `madeBy`: the idempotent call, whose next attempt goes on with the same account. */
async function makeAccount(
  context: AdminContext,
  body: z.output<typeof AccountBody>,
  madeBy: string | null,
): Promise<Account> {
  const earlier = madeBy === null ? undefined : await accountMadeBy(context.books, madeBy);
  if (earlier?.opened) return known(await context.account(earlier.number).describe(), "account", earlier.id);
  const id = earlier?.id ?? body.id;
  const fields: AccountFields = {
    ...NEW_ACCOUNT,
    name: body.name,
    ...changesFrom(body, context.now()),
    limits: limitsFrom(body, NO_LIMITS),
  };
  if (body.compute_upstream && !(id && (await findAccount(context.books, id)))) {
    await requireSeat(context, body.compute_upstream, id ?? null);
  }
  if (body.plan && !body.allow_loss) await refusePlanLoss(context, id ?? null, NEW_ACCOUNT, fields);
  const row = await enterAccount(context.books, id, body.name, context.now(), madeBy);
  if (!row.opened && body.compute_upstream) await takeFirstSeat(context, row.id, body.compute_upstream);
  if (row.opened) throw conflict("account_exists", `There is an account '${row.id}' already.`, "id");
  const object = context.account(row.number);
  await object.open(row.id, row.number, fields);
  // If an earlier creation broke off, the object has that call's fields: replace them by these.
  if (id !== undefined) await object.amend(fields);
  if (body.balance_usd) await bookOpening(object, body.balance_usd);
  await markOpened(context.books, row, body.name, context.now());
  return known(await object.describe(), "account", row.id);
}

async function bookOpening(object: AccountService, amountNanoUsd: number): Promise<void> {
  const credit = { kind: "top_up", amountNanoUsd, reference: OPENING_REFERENCE, note: null } as const;
  const outcome = known(await object.credit(credit), "account", "");
  if (outcome.kind === "reference_conflict") {
    const booked = formatUsd(outcome.entry.amountNanoUsd);
    throw conflict("reference_conflict", `The opening balance was booked as ${booked} USD before.`, "balance_usd");
  }
  if (outcome.kind === "out_of_range") throw invalid("balance_usd", "The balance would leave its range.");
}
