/** Lets the account object act for a tenant's key, and says over HTTP why it did not. */
import type { DelegatedAction, DelegationOutcome, Denial } from "../../core/account/permissions.ts";
import { manages } from "../../core/account/permissions.ts";
import { toHttp } from "../../core/refusal.ts";
import { invalid, notFound, Problem, type ProblemStatus, tooMany } from "../kit/problem.ts";
import type { Tenant } from "./self-service.ts";

type Acted = Extract<DelegationOutcome, { kind: "key" | "team" }>;

/** `what` and `id` name the thing acted on, for the answer that it is unknown. */
async function act(tenant: Tenant, action: DelegatedAction, what: string): Promise<Acted> {
  const outcome = await tenant.object.delegate(tenant.caller.digest, action);
  if (!outcome) throw notFound("account", tenant.caller.account);
  switch (outcome.kind) {
    case "key":
    case "team":
      return outcome;
    case "unknown":
      throw notFound(what, action.id);
    case "too_many":
      throw tooMany(action.kind === "create_team" ? "teams" : "keys", outcome.most);
    case "no_team":
      throw invalid("team", "`team` must name a live team of your account.");
    case "denied":
      throw deniedProblem(outcome.denial);
    case "refused": {
      const http = toHttp(outcome.refusal);
      throw new Problem(http.status as ProblemStatus, http.code, http.message, http.param);
    }
  }
}

export async function actOnKey(tenant: Tenant, action: DelegatedAction): Promise<Extract<Acted, { kind: "key" }>> {
  const outcome = await act(tenant, action, "key");
  if (outcome.kind !== "key") throw new Error(`${action.kind} gave no key`);
  return outcome;
}

export async function actOnTeam(tenant: Tenant, action: DelegatedAction): Promise<Extract<Acted, { kind: "team" }>> {
  const outcome = await act(tenant, action, "team");
  if (outcome.kind !== "team") throw new Error(`${action.kind} gave no team`);
  return outcome;
}

/** For what only reads. */
export function requireManager({ standing }: Tenant): void {
  if (!manages(standing.key)) throw deniedProblem({ why: "role" });
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
