/**
 * `/account/teams`: owners and admins manage their account's teams, by the same bodies as the operator. Limits that a new
 * team's body leaves out it has from the key that makes it.
 */
import * as z from "zod";
import { sees } from "../../core/account/permissions.ts";
import { asId, type TeamId } from "../../core/ids.ts";
import { known } from "../kit/context.ts";
import { Deleted, deleted, listOf, numberedPage, pageRequest } from "../kit/fields.ts";
import { notFound } from "../kit/problem.ts";
import { answers, created, ok, route } from "../kit/route.ts";
import { limitsFrom } from "../kit/serializers.ts";
import {
  newTeamFrom,
  newTeamId,
  serializeTeam,
  TeamAnswer,
  TeamBody,
  TeamPatch,
  teamChangesFrom,
} from "../operator/teams.ts";
import { actOnTeam, requireManager } from "./delegate.ts";
import type { SelfServiceRoutes } from "./self-service.ts";

const create = route({
  id: "createTeam",
  refusals: [403],
  method: "post",
  path: "/account/teams",
  summary: "Make a team",
  body: TeamBody,
  answers: { 201: answers("The team", TeamAnswer) },
});
const list = route({
  id: "listTeams",
  refusals: [403],
  method: "get",
  path: "/account/teams",
  summary: "List the live teams; a key of a team sees that one",
  query: z.strictObject(numberedPage),
  answers: { 200: answers("Teams, oldest first", listOf(TeamAnswer)) },
});
const get = route({
  id: "getTeam",
  refusals: [403],
  method: "get",
  path: "/account/teams/{team}",
  summary: "Read a team",
  answers: { 200: answers("The team", TeamAnswer) },
});
const patch = route({
  id: "updateTeam",
  refusals: [403],
  method: "patch",
  path: "/account/teams/{team}",
  summary: "Change what is named, leave the rest",
  body: TeamPatch,
  answers: { 200: answers("The team", TeamAnswer) },
});
const remove = route({
  id: "deleteTeam",
  refusals: [403],
  method: "delete",
  path: "/account/teams/{team}",
  summary: "Delete a team: its keys stop, its history stays",
  answers: { 200: answers("Deleted", Deleted) },
});

export function addSelfTeams(api: SelfServiceRoutes): void {
  api.add(create, async ({ work: tenant, body }) => {
    const fields = { ...newTeamFrom(body), limits: limitsFrom(body, tenant.standing.key.limits) };
    const action = { kind: "create_team", id: newTeamId(), fields } as const;
    return created(serializeTeam((await actOnTeam(tenant, action)).team));
  });

  api.add(list, async ({ work: tenant, query }) => {
    requireManager(tenant);
    const { team } = tenant.standing;
    if (team) return ok({ data: [serializeTeam(team)], next_cursor: null });
    const page = known(await tenant.object.teams(pageRequest(query)), "account", tenant.caller.account);
    return ok({ data: page.data.map(serializeTeam), next_cursor: page.nextCursor });
  });

  api.add(get, async ({ work: tenant, params }) => {
    requireManager(tenant);
    const id = asId<TeamId>(params.team);
    const team = known(await tenant.object.team(id), "team", id);
    if (!sees(tenant.standing.key, team.id)) throw notFound("team", id);
    return ok(serializeTeam(team));
  });

  api.add(patch, async ({ work: tenant, params, body }) => {
    const changes = teamChangesFrom(body);
    const { team } = await actOnTeam(tenant, { kind: "amend_team", id: asId<TeamId>(params.team), changes });
    return ok(serializeTeam(team));
  });

  api.add(remove, async ({ work: tenant, params }) => {
    await actOnTeam(tenant, { kind: "delete_team", id: asId<TeamId>(params.team) });
    return ok(deleted(params.team));
  });
}
