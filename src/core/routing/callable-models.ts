/** The names that an account can call, with their rows. */
import type { AccountId } from "../ids.ts";
import { CALLED_KINDS, type ModelRow } from "../pricing/prices.ts";
import { resolveAlias, rowOfTarget } from "./resolution.ts";
import { parseInstanceModel, type RoutingSnapshot, rowOf } from "./routes.ts";

/**
 * Every name that the account can call now, sorted: aliases, models with an upstream, own instances. Names without a
 * price are left out.
 */
export function callableModels(routing: RoutingSnapshot, account: AccountId, nowMs: number): readonly ModelRow[] {
  const named = new Map<string, ModelRow>();
  const offer = (name: string, row: ModelRow | undefined) => {
    if (row) named.set(name, { ...row, model: name });
  };
  for (const model of Object.keys(routing.models)) {
    const row = rowOf(routing, model, nowMs);
    if (row?.upstream && !parseInstanceModel(model)) offer(model, row);
  }
  for (const instance of Object.values(routing.instances)) {
    const model = `${instance.name}:${instance.instanceId}`;
    if (instance.account === account) offer(model, rowOfTarget(routing, model, nowMs));
  }
  // Aliases come last, the account's own after the common ones, so that they override as in resolution.
  const aliases = Object.values(routing.aliases).filter((alias) => alias.account === null || alias.account === account);
  for (const alias of aliases.sort((a, b) => Number(a.account !== null) - Number(b.account !== null))) {
    const resolution = resolveAlias(routing, alias, { kinds: CALLED_KINDS, instances: true }, nowMs);
    if (resolution.ok) offer(alias.alias, resolution.route.row);
  }
  return [...named.values()].sort((a, b) => (a.model < b.model ? -1 : 1));
}
