/** `/admin/accounts/{account}/teams`: groups in an account with limits and a budget of their own. */
import * as z from "zod";
import { type Changes, NO_LIMITS, type Team, type TeamFields } from "../../core/account/tenant.ts";
import { asId, type TeamId } from "../../core/ids.ts";
import { type AdminRoutes, known, theAccount, theLiveAccount } from "../kit/context.ts";
import {
  Deleted,
  deleted,
  limitAnswers,
  limitFields,
  listOf,
  name,
  numberedPage,
  pageRequest,
  timeAnswer,
} from "../kit/fields.ts";
import { newId } from "../kit/new-id.ts";
import { conflict, tooMany } from "../kit/problem.ts";
import { answers, created, ok, route } from "../kit/route.ts";
import { limitsFrom, limitsIn, serializeLimits, toIso, toIsoOrNull } from "../kit/serializers.ts";

export const TeamBody = z
  .strictObject({ name, blocked: z.boolean().optional(), ...limitFields })
  .meta({ id: "TeamBody" });
export const TeamPatch = z
  .strictObject({ name: name.optional(), blocked: z.boolean().optional(), ...limitFields })
  .meta({ id: "TeamPatch" });
export const TeamAnswer = z
  .object({
    id: z.string(),
    name: z.string(),
    blocked: z.boolean(),
    created_at: timeAnswer,
    deleted_at: timeAnswer.nullable(),
    ...limitAnswers,
  })
  .meta({ id: "Team" });

export const serializeTeam = (team: Team) => ({
  id: team.id,
  name: team.name,
  blocked: team.blocked,
  created_at: toIso(team.createdAtMs),
  deleted_at: toIsoOrNull(team.deletedAtMs),
  ...serializeLimits(team.limits),
});

export const newTeamFrom = (body: z.output<typeof TeamBody>): TeamFields => ({
  name: body.name,
  blocked: body.blocked ?? false,
  limits: limitsFrom(body, NO_LIMITS),
});

/** The fields that a body names; the rest are left out. */
export const teamChangesFrom = (body: z.output<typeof TeamPatch>): Changes<TeamFields> => {
  const limits = limitsIn(body);
  return {
    ...(body.name !== undefined && { name: body.name }),
    ...(body.blocked !== undefined && { blocked: body.blocked }),
    ...(limits && { limits }),
  };
};

export const newTeamId = (): TeamId => asId<TeamId>(newId("team_"));

const create = route({
  id: "createTeam",
  method: "post",
  path: "/admin/accounts/{account}/teams",
  summary: "Make a team",
  body: TeamBody,
  answers: { 201: answers("The team", TeamAnswer) },
});
const list = route({
  id: "listTeams",
  method: "get",
  path: "/admin/accounts/{account}/teams",
  summary: "List the live teams",
  query: z.strictObject(numberedPage),
  answers: { 200: answers("Teams, oldest first", listOf(TeamAnswer)) },
});
const get = route({
  id: "getTeam",
  method: "get",
  path: "/admin/accounts/{account}/teams/{team}",
  summary: "Read a team",
  answers: { 200: answers("The team", TeamAnswer) },
});
const patch = route({
  id: "updateTeam",
  method: "patch",
  path: "/admin/accounts/{account}/teams/{team}",
  summary: "Change what is named, leave the rest",
  body: TeamPatch,
  answers: { 200: answers("The team", TeamAnswer) },
});
const remove = route({
  id: "deleteTeam",
  method: "delete",
  path: "/admin/accounts/{account}/teams/{team}",
  summary: "Delete a team: its keys stop, its history stays",
  answers: { 200: answers("Deleted", Deleted) },
});

export function addTeams(api: AdminRoutes): void {
  api.add(create, async ({ work: context, params, body }) => {
    const { account: id } = params;
    const { object } = await theLiveAccount(context, id);
    const made = await object.createTeam(newTeamId(), newTeamFrom(body));
    if (made && "kind" in made) throw tooMany("teams", made.most);
    return created(serializeTeam(known(made, "account", id)));
  });

  api.add(list, async ({ work: context, params, query }) => {
    const { account: id } = params;
    const { object } = await theAccount(context, id);
    const page = known(await object.teams(pageRequest(query)), "account", id);
    return ok({ data: page.data.map(serializeTeam), next_cursor: page.nextCursor });
  });

  api.add(get, async ({ work: context, params }) => {
    const { account: id, team: teamId } = params;
    const { object } = await theAccount(context, id);
    return ok(serializeTeam(known(await object.team(asId<TeamId>(teamId)), "team", teamId)));
  });

  api.add(patch, async ({ work: context, params, body }) => {
    const { account: id, team: teamId } = params;
    const { object } = await theLiveAccount(context, id);
    const current = known(await object.team(asId<TeamId>(teamId)), "team", teamId);
    if (current.deletedAtMs !== null) throw conflict("team_deleted", `The team '${teamId}' is deleted.`, "team");
    return ok(serializeTeam(known(await object.amendTeam(current.id, teamChangesFrom(body)), "team", teamId)));
  });

  api.add(remove, async ({ work: context, params }) => {
    const { account: id, team: teamId } = params;
    const { object } = await theLiveAccount(context, id);
    known(await object.deleteTeam(asId<TeamId>(teamId)), "team", teamId);
    return ok(deleted(teamId));
  });
}
