/**
 * The operator's API, `/admin`: accounts, credits, keys, teams, routing, prices, usage.
 *
 * One zod schema for each body validates it, types its handler and appears in `/admin/openapi.json`. Each resource has
 * a file; `kit/` has what they share. The books are in D1 and in the account objects; this folder stores nothing.
 */
import { HonoBase as Hono } from "hono/hono-base";
import { TrieRouter } from "hono/router/trie-router";
import * as z from "zod/mini";
import { READERS } from "../../core/account/operators.ts";
import { OPERATOR } from "../../core/account/permissions.ts";
import { log } from "../../platform/log.ts";
import { documentResponse, OPERATOR_DOCUMENT } from "../kit/assets.ts";
import { recordChange } from "../kit/change-log.ts";
import {
  type AdminBindings,
  type AdminRoutes,
  type OperatorContext,
  theAccount,
  theLiveAccount,
} from "../kit/context.ts";
import { addKeys } from "../kit/keys.ts";
import type { ManagedAt } from "../kit/manager.ts";
import { carryOutOnce } from "../kit/once.ts";
import { answerError, Problem } from "../kit/problem.ts";
import { ApiRoutes, type Around, answers, type Route, route } from "../kit/route.ts";
import { addTeams } from "../kit/teams.ts";
import { addAccounts } from "./accounts.ts";
import { addAlerts } from "./alerts.ts";
import { addAliases } from "./aliases.ts";
import { admitRole, operatorOnly, permitFields } from "./auth.ts";
import { addCalls } from "./calls.ts";
import { addCompute } from "./compute.ts";
import { addEvents } from "./events.ts";
import { addExport } from "./export.ts";
import { addInstances } from "./instances.ts";
import { addKeyLookup } from "./key-lookup.ts";
import { addLedger } from "./ledger.ts";
import { addLimits } from "./limits.ts";
import { addModels } from "./models.ts";
import { addOperators } from "./operators.ts";
import { addRefusals } from "./refusals.ts";
import { addStatements } from "./statements.ts";
import { addTemplates } from "./templates.ts";
import { addUpstreamCheck } from "./upstream-check.ts";
import { addUpstreamHealth } from "./upstream-health.ts";
import { addUpstreams } from "./upstreams.ts";
import { addUsage } from "./usage.ts";

/** The operator manages keys and teams without a ceiling. */
const IN_ANY_ACCOUNT: ManagedAt<OperatorContext> = {
  base: "/admin/accounts/{account}",
  refusals: [],
  managerOf: async (context, params, purpose) => {
    const find = purpose === "read" ? theAccount : theLiveAccount;
    const { row, object } = await find(context, params.account);
    return { actor: OPERATOR, ceiling: null, account: row.id, number: row.number, object, context };
  },
};

const RESOURCES = [
  addAccounts,
  addLedger,
  (api: AdminRoutes) => addTeams(api, IN_ANY_ACCOUNT),
  (api: AdminRoutes) => addKeys(api, IN_ANY_ACCOUNT),
  addUpstreams,
  addUpstreamCheck,
  addUpstreamHealth,
  addAliases,
  addInstances,
  addModels,
  addUsage,
  addCalls,
  addRefusals,
  addKeyLookup,
  addStatements,
  addLimits,
  addCompute,
  addTemplates,
  addOperators,
  addEvents,
  addExport,
  addAlerts,
  addDocument,
];

const AROUND: Around<OperatorContext> = {
  refusals: [403],
  admit: ({ operator }, called) => admitRole(operator, called),
  permit: ({ operator }, called, fields) => permitFields(operator, called, fields),
  record: (context, call) => {
    const { id, name } = context.operator;
    const actor = { kind: "operator", id, name } as const;
    return carryOutOnce(context, `operator ${id}`, call, (once) =>
      recordChange(context, actor, once, call.params.account ?? null),
    );
  },
};

/** Serves everything under `/admin`. Its paths are absolute, so mount it at the root. */
export function adminApp(): { app: Hono<AdminBindings>; routes: readonly Route[] } {
  const app = new Hono<AdminBindings>();
  app.router = new TrieRouter();
  app.onError((error, context) => answerError(error, context, log));
  // Authenticate the sender before reading anything of the request.
  app.use("/admin/*", operatorOnly);
  const api: AdminRoutes = new ApiRoutes(app, (context) => context.get("admin"), AROUND);
  for (const add of RESOURCES) add(api);
  app.all("/admin/*", (context) => {
    throw new Problem(404, "not_found", `${context.req.method} ${context.req.path} is not a call of this API.`);
  });
  return { app, routes: api.routes };
}

const read = route({
  id: "getOpenApi",
  method: "get",
  path: "/admin/openapi.json",
  roles: READERS,
  summary: "This document",
  answers: { 200: answers("OpenAPI 3.1", z.looseObject({})) },
});

function addDocument(api: AdminRoutes): void {
  api.add(read, ({ work }) => documentResponse(work.assets, OPERATOR_DOCUMENT));
}
