/**
 * What handlers of the operator's API work with: the books, the account objects, the edge, the secrets. Opened for each
 * request after the operator has authenticated.
 */

import type { Operator } from "../../core/account/operators.ts";
import type { BrokerPort } from "../../core/compute/control.ts";
import type { AccountNumber } from "../../core/ids.ts";
import type { Directory, LogLine, Ports } from "../../gateway/ports.ts";
import { type AccountRow, findAccount } from "../../platform/d1/accounts.ts";
import type { EdgeNotices } from "../../platform/edge/directory.ts";
import { openPorts, type PlatformPorts } from "../../platform/ports.ts";
import type { PlatformSecrets } from "../../platform/secrets.ts";
import type { DeliverEnv } from "../../platform/webhooks/deliver.ts";
import { type AccountObject, accountInTime } from "./account-object.ts";
import { conflict, notFound } from "./problem.ts";
import type { ApiRoutes } from "./route.ts";

export interface AdminContext {
  readonly books: D1Database;
  readonly assets: Fetcher;
  /** Undefined: this deployment has none. */
  readonly archive: R2Bucket | undefined;
  readonly edge: Directory & EdgeNotices;
  readonly secrets: PlatformSecrets;
  account(number: AccountNumber): AccountObject;
  /** Of an upstream for compute. */
  broker(upstream: string): BrokerPort;
  /** What a check calls an upstream with. */
  readonly calls: Pick<Ports, "upstreams" | "services" | "now" | "after" | "newCallId">;
  /** What alerts are sent with. */
  readonly alerts: DeliverEnv & { readonly WEBHOOK_TEST_ORIGINS?: string };
  /** Where this gateway is reached: the request's own. */
  readonly host: string;
  now(): number;
  log(line: LogLine): void;
}

/** The same with who calls. */
export interface OperatorContext extends AdminContext {
  readonly operator: Operator;
}

export interface AdminBindings {
  /** `signedIn`: who holds the console's session, where one stands in place of the bearer. */
  Bindings: Env & { readonly signedIn?: { readonly operator?: Operator } };
  Variables: { admin: OperatorContext };
}
export type AdminRoutes = ApiRoutes<OperatorContext, AdminBindings>;

export function openContext(
  env: Env,
  context: Pick<ExecutionContext, "waitUntil">,
  secrets: PlatformSecrets,
  url: string,
): AdminContext {
  return contextOf(env, openPorts(env, context, secrets), url);
}

/** The same on open ports. `url`: of the request. */
export function contextOf(env: Env, ports: PlatformPorts, url: string): AdminContext {
  return {
    books: env.BOOKS,
    assets: env.ASSETS,
    archive: env.ARCHIVE,
    edge: ports.directory,
    secrets: ports.secrets,
    account: (number) => accountInTime(ports, number),
    broker: ports.broker,
    calls: ports,
    alerts: env,
    host: new URL(url).host,
    now: ports.now,
    log: ports.log,
  };
}

/** The account of this id with its object, even if it is deleted. Unknown: 404. */
export async function theAccount(
  context: AdminContext,
  id: string,
): Promise<{ row: AccountRow; object: AccountObject }> {
  const row = await findAccount(context.books, id);
  if (!row) throw notFound("account", id);
  return { row, object: context.account(row.number) };
}

/** The same for changes: 409 if the account is deleted. */
export async function theLiveAccount(
  context: AdminContext,
  id: string,
): Promise<{ row: AccountRow; object: AccountObject }> {
  const found = await theAccount(context, id);
  if (found.row.deleted) throw conflict("account_deleted", `The account '${id}' is deleted.`, "account");
  return found;
}

/** Throws 404 where the object does not know it. */
export function known<T>(value: T | undefined, what: string, id: string): T {
  if (value === undefined) throw notFound(what, id);
  return value;
}
