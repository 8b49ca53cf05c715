/**
 * Teams: groups in an account with limits and a budget of their own. `/admin/accounts/{account}/teams` for the
 * operator, `/account/teams` for owners and admins, with the same bodies.
 */

import type { Env } from "hono";
import * as z from "zod/mini";
import { READERS } from "../../core/account/operators.ts";
import { sees } from "../../core/account/permissions.ts";
import type { Team } from "../../core/account/tenant.ts";
import { asId, type TeamId } from "../../core/ids.ts";
import { known } from "./context.ts";
import { Deleted, deleted, listOf, numberedPage, pageRequest } from "./fields.ts";
import { type ManagedAt, type Manager, manageTeam, oneWithUsed, requireManager, withUsed } from "./manager.ts";
import { notFound } from "./problem.ts";
import { type ApiRoutes, answers, created, ok, route } from "./route.ts";
import { newTeamFrom, serializeTeam, TeamAnswer, TeamBody, TeamPatch, teamChangesFrom } from "./team-schema.ts";

const routesAt = ({ base, refusals }: ManagedAt<never>) => ({
  create: route({
    id: "createTeam",
    method: "post",
    path: `${base}/teams`,
    summary: "Make a team",
    body: TeamBody,
    answers: { 201: answers("The team", TeamAnswer) },
    refusals,
  }),
  list: route({
    id: "listTeams",
    method: "get",
    path: `${base}/teams`,
    roles: READERS,
    summary: "List the live teams; a key of a team sees that one",
    query: z.strictObject(numberedPage),
    answers: { 200: answers("Teams, oldest first", listOf(TeamAnswer)) },
    refusals,
  }),
  get: route({
    id: "getTeam",
    method: "get",
    path: `${base}/teams/{team}`,
    roles: READERS,
    summary: "Read a team",
    answers: { 200: answers("The team", TeamAnswer) },
    refusals,
  }),
  patch: route({
    id: "updateTeam",
    method: "patch",
    path: `${base}/teams/{team}`,
    roles: { support: ["blocked"] },
    summary: "Change what is named, leave the rest",
    body: TeamPatch,
    answers: { 200: answers("The team", TeamAnswer) },
    refusals,
  }),
  remove: route({
    id: "deleteTeam",
    method: "delete",
    path: `${base}/teams/{team}`,
    summary: "Delete a team: its keys stop, its history stays",
    answers: { 200: answers("Deleted", Deleted) },
    refusals,
  }),
});

export function addTeams<Work, Bindings extends Env>(api: ApiRoutes<Work, Bindings>, at: ManagedAt<Work>): void {
  const { create, list, get, patch, remove } = routesAt(at);

  api.add(create, async ({ work, params, body, making }) => {
    const manager = await at.managerOf(work, params, "change");
    const fields = newTeamFrom(body, manager.ceiling);
    const { team } = await manageTeam(manager, { kind: "create_team", id: asId<TeamId>(making.id("team_")), fields });
    return created(serializeTeam(team));
  });

  api.add(list, async ({ work, params, query }) => {
    const manager = await at.managerOf(work, params, "read");
    requireManager(manager);
    const { object, ceiling, account } = manager;
    if (ceiling !== null && ceiling.team !== null) {
      const own = await object.team(ceiling.team);
      return ok({ data: own ? await shown(manager, [own]) : [], next_cursor: null });
    }
    const page = known(await object.teams(pageRequest(query)), "account", account);
    return ok({ data: await shown(manager, page.data), next_cursor: page.nextCursor });
  });

  api.add(get, async ({ work, params }) => {
    const manager = await at.managerOf(work, params, "read");
    requireManager(manager);
    const id = asId<TeamId>(params.team);
    const team = known(await manager.object.team(id), "team", id);
    if (!sees(manager.ceiling, team.id)) throw notFound("team", id);
    return ok(await shownTeam(manager, team));
  });

  api.add(patch, async ({ work, params, body }) => {
    const manager = await at.managerOf(work, params, "change");
    const changes = teamChangesFrom(body);
    const { team } = await manageTeam(manager, { kind: "amend_team", id: asId<TeamId>(params.team), changes });
    return ok(await shownTeam(manager, team));
  });

  api.add(remove, async ({ work, params }) => {
    const manager = await at.managerOf(work, params, "change");
    await manageTeam(manager, { kind: "delete_team", id: asId<TeamId>(params.team) });
    return ok(deleted(params.team));
  });
}

const shown = (manager: Manager, teams: readonly Team[]) => withUsed(manager, "teams", teams, serializeTeam);
const shownTeam = (manager: Manager, team: Team) => oneWithUsed(manager, "teams", team, serializeTeam);
