/** Teams in bodies and answers: the same for the operator's API and for owners who manage their account's teams. */
import * as z from "zod/mini";
import type { Used } from "../../core/account/account-views.ts";
import type { Ceiling } from "../../core/account/permissions.ts";
import { type Changes, NO_LIMITS, type Team, type TeamFields } from "../../core/account/tenant.ts";
import { limitAnswers, limitFields, name, timeAnswer, usedAnswers } from "./fields.ts";
import { limitsFrom, limitsIn, serializeLimits, serializeUsed, toIso, toIsoOrNull } from "./serializers.ts";

export const TeamBody = z
  .strictObject({ name, blocked: z.optional(z.boolean()), ...limitFields })
  .register(z.globalRegistry, { id: "TeamBody" });
export const TeamPatch = z
  .strictObject({ name: z.optional(name), blocked: z.optional(z.boolean()), ...limitFields })
  .register(z.globalRegistry, { id: "TeamPatch" });
export const TeamAnswer = z
  .object({
    id: z.string(),
    name: z.string(),
    blocked: z.boolean(),
    created_at: timeAnswer,
    deleted_at: z.nullable(timeAnswer),
    ...usedAnswers,
    ...limitAnswers,
  })
  .register(z.globalRegistry, { id: "Team" });

/** `used`: absent of a team that was just made. */
export const serializeTeam = (team: Team, used?: Used) => ({
  id: team.id,
  name: team.name,
  blocked: team.blocked,
  created_at: toIso(team.createdAtMs),
  deleted_at: toIsoOrNull(team.deletedAtMs),
  ...serializeUsed(used),
  ...serializeLimits(team.limits),
});

/** Limits that the body omits come from the key that creates the team, so that no default exceeds its ceiling. */
export const newTeamFrom = (body: z.output<typeof TeamBody>, maker: Ceiling): TeamFields => ({
  name: body.name,
  blocked: body.blocked ?? false,
  limits: limitsFrom(body, maker?.limits ?? NO_LIMITS),
});

/** Only the fields that the body names. */
export const teamChangesFrom = (body: z.output<typeof TeamPatch>): Changes<TeamFields> => {
  const limits = limitsIn(body);
  return {
    ...(body.name !== undefined && { name: body.name }),
    ...(body.blocked !== undefined && { blocked: body.blocked }),
    ...(limits && { limits }),
  };
};
