/** What there is of what a file names. */
import type { Schemas } from "../../client/operator.ts";
import { collected } from "../commands/collected.ts";
import { usage } from "../failure.ts";
import type { Gateway } from "../gateway.ts";
import type { Desired, WantedAccount } from "./desired.ts";

export interface CurrentAccount {
  readonly fields: Schemas["Account"];
  readonly teams: ReadonlyMap<string, Schemas["Team"]>;
  readonly keys: ReadonlyMap<string, Schemas["Key"]>;
}
export interface Current {
  readonly upstreams: ReadonlyMap<string, Schemas["Upstream"]>;
  readonly models: ReadonlyMap<string, Schemas["Model"]>;
  /** By `aliasKey`. */
  readonly aliases: ReadonlyMap<string, Schemas["Alias"]>;
  readonly accounts: ReadonlyMap<string, CurrentAccount>;
  /** Everything that could be pruned; empty unless it was asked for. */
  readonly all: {
    readonly upstreams: readonly string[];
    readonly aliases: readonly Pick<Schemas["Alias"], "alias" | "account">[];
  };
}

export const aliasKey = (alias: string, account: string | null): string => JSON.stringify([account, alias]);

const AT_ONCE = 8;

/** Asks for each, a few at once; leaves out what is not there. */
async function each<Wanted, Found>(
  wanted: readonly Wanted[],
  find: (one: Wanted) => Promise<readonly [string, Found] | undefined>,
): Promise<Map<string, Found>> {
  const found = new Map<string, Found>();
  for (let start = 0; start < wanted.length; start += AT_ONCE) {
    const some = await Promise.all(wanted.slice(start, start + AT_ONCE).map(find));
    for (const one of some) if (one) found.set(...one);
  }
  return found;
}

export async function readCurrent(gateway: Gateway, desired: Desired, prune: boolean): Promise<Current> {
  const pair = <Found>(key: string, value: Found | undefined) =>
    value === undefined ? undefined : ([key, value] as const);
  return {
    upstreams: await each([...desired.upstreams.keys()], async (id) =>
      pair(id, await gateway.find("getUpstream", { upstream: id })),
    ),
    models: await each([...desired.models.keys()], async (model) =>
      pair(model, await gateway.find("getModel", { model })),
    ),
    aliases: await each(desired.aliases, async ({ alias, account }) =>
      pair(
        aliasKey(alias, account),
        await gateway.find("getAlias", { alias, query: { account: account ?? undefined } }),
      ),
    ),
    accounts: await each([...desired.accounts], async ([id, wanted]) => pair(id, await accountAt(gateway, id, wanted))),
    all: {
      upstreams:
        prune && desired.sections.has("upstreams")
          ? (await collected(gateway.rows("listUpstreams", {}))).map(({ id }) => id)
          : [],
      aliases: prune && desired.sections.has("aliases") ? await collected(gateway.rows("listAliases", {})) : [],
    },
  };
}

async function accountAt(gateway: Gateway, id: string, wanted: WantedAccount): Promise<CurrentAccount | undefined> {
  const fields = await gateway.find("getAccount", { account: id });
  if (!fields) return undefined;
  if (fields.deleted_at !== null)
    throw usage(`The account '${id}' is deleted, and its id is not used again. Take it out of the file.`);
  const named = wanted.keys.size + wanted.teams.size > 0;
  const teams = named
    ? await collected(gateway.rows("listTeams", { account: id, query: { limit: 1000 } }), 20_000)
    : [];
  const keys =
    wanted.keys.size > 0
      ? await collected(gateway.rows("listKeys", { account: id, query: { limit: 1000 } }), 20_000)
      : [];
  return { fields, teams: byName(teams, "team", id, wanted.teams), keys: byName(keys, "key", id, wanted.keys) };
}

function byName<Row extends { readonly name: string }>(
  rows: readonly Row[],
  what: string,
  account: string,
  wanted: ReadonlyMap<string, unknown>,
): Map<string, Row> {
  const found = new Map<string, Row>();
  for (const row of rows) {
    if (found.has(row.name) && wanted.has(row.name)) {
      throw usage(`The account '${account}' has two ${what}s named '${row.name}': give one of them another name.`);
    }
    found.set(row.name, row);
  }
  return found;
}
