/** What has to be done so that there is what a file wants. Pure: twice the same gives nothing the second time. */
import type * as z from "zod";
import { KeyPatch } from "../../src/api/kit/key-schema.ts";
import { TeamPatch } from "../../src/api/kit/team-schema.ts";
import { AccountPatch } from "../../src/api/operator/account-schema.ts";
import { AliasPatch } from "../../src/api/operator/alias-schema.ts";
import { ModelPatch } from "../../src/api/operator/model-schema.ts";
import { UpstreamPatch } from "../../src/api/operator/upstream-schema.ts";
import { usage } from "../failure.ts";
import { alike, type Change, type FieldChange, type KeysSent } from "./change.ts";
import { aliasKey, type Current, type CurrentAccount } from "./current.ts";
import { canonical, type Desired, type Fields, type WantedAccount, type WantedUpstream } from "./desired.ts";
import { priceChanges, prunedPrices } from "./price-difference.ts";

export interface Options {
  readonly prune: boolean;
  readonly nowMs: number;
  /** Send credentials of upstreams again, which cannot be compared. */
  readonly credentials: boolean;
}

/** In the order in which they are made: what is named comes before what names it. */
export function difference(desired: Desired, current: Current, options: Options): Change[] {
  return [
    ...[...desired.upstreams].flatMap(([id, wanted]) => upstreamChanges(id, wanted, current, options)),
    ...[...desired.models].flatMap(([model, wanted]) => modelChanges(model, wanted.settings, current)),
    ...[...desired.models].flatMap(([model, wanted]) =>
      priceChanges(model, wanted, current.models.get(model), options.nowMs),
    ),
    ...[...desired.accounts].flatMap(([id, wanted]) =>
      accountChanges(id, wanted, current.accounts.get(id), options.nowMs),
    ),
    ...desired.aliases.flatMap((wanted) => aliasChanges(wanted, current)),
    ...(options.prune ? pruned(desired, current, options.nowMs) : []),
  ];
}

type Normal = (fields: { readonly [name: string]: unknown }) => { readonly [name: string]: unknown };
const asItIs: Normal = (fields) => fields;

/** The fields that are wanted and are not so. Both sides are read as the gateway reads them. */
function fieldChanges(schema: z.core.$ZodType, wanted: Fields, there: object, normal: Normal = asItIs): FieldChange[] {
  const names = Object.keys(wanted).filter((name) => wanted[name] !== undefined);
  const shown = Object.fromEntries(names.map((name) => [name, (there as Fields)[name] ?? null]));
  const asked = normal(canonical(schema, wanted) as Fields);
  const stands = normal(canonical(schema, shown) as Fields);
  return names
    .filter((name) => !alike(asked[name], stands[name]))
    .map((name) => ({ field: name, from: shown[name], to: wanted[name] }));
}

const newFields = (fields: Fields): FieldChange[] => Object.entries(fields).map(([field, to]) => ({ field, to }));

const bodyOf = (fields: Fields, changes: readonly FieldChange[]): Fields =>
  Object.fromEntries(changes.map(({ field }) => [field, fields[field]]));

function upstreamChanges(id: string, wanted: WantedUpstream, current: Current, { credentials }: Options): Change[] {
  const { fields, apiKey, serviceApiKey } = wanted;
  const there = current.upstreams.get(id);
  const named = { kind: "upstream", id } as const;
  if (!there) {
    if (fields.base_url === undefined)
      throw usage(`upstreams.${id}.base_url is required: there is no such upstream yet.`);
    if (apiKey === null) throw usage(`upstreams.${id}.api_key_from is required: there is no such upstream yet.`);
    const step = { do: "make_upstream", upstream: id, body: fields, keys: { apiKey, serviceApiKey } } as const;
    return [{ ...named, op: "make", fields: [...newFields(fields), ...keysShown(step.keys)], step }];
  }
  const { timeouts } = fields;
  const shown = { ...there, timeouts: picked(there.timeouts, timeouts) };
  const changes = fieldChanges(UpstreamPatch, fields, shown);
  const moved = changes.some(({ field }) => field === "base_url") && origin(fields.base_url) !== origin(there.base_url);
  if (moved && apiKey === null)
    throw usage(`upstreams.${id}.api_key_from is required: another host gets no stored key.`);
  const again = moved || credentials;
  const keys = {
    apiKey: again ? apiKey : null,
    serviceApiKey: again || !there.service_api_key_set ? serviceApiKey : null,
  };
  if (changes.length === 0 && keys.apiKey === null && keys.serviceApiKey === null) return [];
  const step = { do: "change_upstream", upstream: id, body: bodyOf(fields, changes), keys } as const;
  return [{ ...named, op: "change", fields: [...changes, ...keysShown(keys)], step }];
}

const picked = (values: object, like: unknown): object =>
  typeof like === "object" && like !== null
    ? Object.fromEntries(Object.entries(values).filter(([name]) => Object.hasOwn(like, name)))
    : values;

const origin = (url: unknown): string | undefined =>
  URL.canParse(String(url)) ? new URL(String(url)).origin : undefined;

/** Credentials are never shown. */
const keysShown = ({ apiKey, serviceApiKey }: KeysSent): FieldChange[] =>
  Object.entries({ api_key: apiKey, service_api_key: serviceApiKey }).flatMap(([field, source]) =>
    source === null ? [] : [{ field, to: "env" in source ? `(of ${source.env})` : `(of ${source.file})` }],
  );

function modelChanges(model: string, settings: Fields, current: Current): Change[] {
  const there = current.models.get(model);
  if (!there) {
    if (settings.kind === undefined) throw usage(`models.${model}.kind is required: there is no such model yet.`);
    const step = { do: "make_model", model, body: settings } as const;
    return [{ op: "make", kind: "model", id: model, fields: newFields(settings), step }];
  }
  const changes = fieldChanges(ModelPatch, settings, there);
  if (changes.length === 0) return [];
  const step = { do: "change_model", model, body: bodyOf(settings, changes) } as const;
  return [{ op: "change", kind: "model", id: model, fields: changes, step }];
}

function aliasChanges({ alias, account, fields }: Desired["aliases"][number], current: Current): Change[] {
  const there = current.aliases.get(aliasKey(alias, account));
  const named = { kind: "alias", id: account === null ? alias : `${account}/${alias}` } as const;
  if (!there) {
    const step = { do: "make_alias", alias, account, body: fields } as const;
    return [{ ...named, op: "make", fields: newFields(fields), step }];
  }
  const { allow_loss: _, ...compared } = fields;
  const changes = fieldChanges(AliasPatch, compared, there, normalAlias);
  if (changes.length === 0) return [];
  const step = { do: "change_alias", alias, account, body: bodyOf(fields, changes) } as const;
  return [{ ...named, op: "change", fields: changes, step }];
}

const normalAlias: Normal = ({ targets, retry_on, ...rest }) => ({
  ...rest,
  ...(Array.isArray(targets) && {
    targets: targets.map((target) => ({ priority: 0, weight: 1, drain: false, ...target })),
  }),
  ...(Array.isArray(retry_on) && { retry_on: [...new Set(retry_on)].sort() }),
});

function accountChanges(id: string, wanted: WantedAccount, there: CurrentAccount | undefined, nowMs: number): Change[] {
  const known = new Set([...(there?.teams.keys() ?? []), ...wanted.teams.keys()]);
  for (const [name, { team }] of wanted.keys) {
    if (typeof team !== "string" || known.has(team)) continue;
    throw usage(
      `accounts.${id}.keys.${name}.team: the account has no team named '${team}', neither there nor in the file.`,
    );
  }
  return [
    ...ownChanges(id, wanted.fields, there, nowMs),
    ...[...wanted.teams].flatMap(([name, fields]) => teamChanges(id, name, fields, there)),
    ...[...wanted.keys].flatMap(([name, fields]) => keyChanges(id, name, fields, there)),
  ];
}

function ownChanges(id: string, fields: Fields, there: CurrentAccount | undefined, nowMs: number): Change[] {
  if (!there) {
    const body = { ...fields, id };
    return [
      { op: "make", kind: "account", id, fields: newFields(fields), step: { do: "make_account", account: id, body } },
    ];
  }
  // The opening balance is booked once, when the account is made.
  const { balance_usd: _, allow_loss: __, plan, ...compared } = fields;
  const changes = [...fieldChanges(AccountPatch, compared, there.fields), ...planChanges(plan, there.fields, nowMs)];
  if (changes.length === 0) return [];
  const body = {
    ...bodyOf(fields, changes),
    ...(changes.some(({ field }) => field === "plan") && { plan: planSent(plan, nowMs) }),
  };
  return [{ op: "change", kind: "account", id, fields: changes, step: { do: "change_account", account: id, body } }];
}

type Plan = { readonly from?: number };

const planAt = (plan: unknown): Plan => ((canonical(AccountPatch, { plan }) as { plan?: Plan }).plan ?? {}) as Plan;
const isToCome = (plan: unknown, nowMs: number): boolean => (planAt(plan).from ?? 0) > nowMs;
const normalPlan = (plan: unknown) => ({ markup_percent: 0, overrides: {}, ...(plan as object) });

/** A plan with a time to come is compared with the next one, any other with the one that holds. */
function planChanges(plan: unknown, there: CurrentAccount["fields"], nowMs: number): FieldChange[] {
  if (plan === undefined) return [];
  const later = isToCome(plan, nowMs);
  const stands = later ? there.next_plan : there.plan;
  const { from, ...asked } = planAt(plan);
  const { from: standsFrom, ...shown } = stands === null ? ({} as Plan) : planAt(stands);
  const same = stands !== null && alike(normalPlan(asked), normalPlan(shown)) && (!later || from === standsFrom);
  return same ? [] : [{ field: "plan", from: stands, to: plan }];
}

function planSent(plan: unknown, nowMs: number): unknown {
  if (isToCome(plan, nowMs)) return plan;
  const { from: _, ...now } = plan as { from?: unknown };
  return now;
}

function teamChanges(account: string, name: string, fields: Fields, there: CurrentAccount | undefined): Change[] {
  const team = there?.teams.get(name);
  const named = { kind: "team", id: `${account}/${name}` } as const;
  if (!team) {
    const step = { do: "make_team", account, name, body: { ...fields, name } } as const;
    return [{ ...named, op: "make", fields: newFields(fields), step }];
  }
  const changes = fieldChanges(TeamPatch, fields, team);
  if (changes.length === 0) return [];
  return [
    {
      ...named,
      op: "change",
      fields: changes,
      step: { do: "change_team", account, team: team.id, body: bodyOf(fields, changes) },
    },
  ];
}

function keyChanges(account: string, name: string, fields: Fields, there: CurrentAccount | undefined): Change[] {
  const key = there?.keys.get(name);
  const named = { kind: "key", id: `${account}/${name}` } as const;
  if (!key) {
    const step = { do: "make_key", account, name, body: { ...fields, name } } as const;
    return [{ ...named, op: "make", fields: newFields(fields), step }];
  }
  const team = [...(there?.teams.values() ?? [])].find(({ id }) => id === key.team);
  const changes = fieldChanges(KeyPatch, fields, { ...key, team: team?.name ?? key.team }, normalKey);
  if (changes.length === 0) return [];
  return [
    {
      ...named,
      op: "change",
      fields: changes,
      step: { do: "change_key", account, key: key.id, body: bodyOf(fields, changes) },
    },
  ];
}

const sorted = (list: unknown): unknown => (Array.isArray(list) ? [...new Set(list)].sort() : list);
const normalKey: Normal = (fields) => ({
  ...fields,
  ...("scopes" in fields && { scopes: sorted(fields.scopes) }),
  ...("models" in fields && { models: sorted(fields.models) }),
});

/** Aliases first: they name upstreams. */
function pruned(desired: Desired, current: Current, nowMs: number): Change[] {
  const wanted = new Set(desired.aliases.map(({ alias, account }) => aliasKey(alias, account)));
  const aliases = current.all.aliases
    .filter(({ alias, account }) => !wanted.has(aliasKey(alias, account)))
    .map(({ alias, account }): Change => {
      const id = account === null ? alias : `${account}/${alias}`;
      return { op: "drop", kind: "alias", id, fields: [], step: { do: "drop_alias", alias, account } };
    });
  const upstreams = current.all.upstreams
    .filter((id) => !desired.upstreams.has(id))
    .map(
      (id): Change => ({ op: "drop", kind: "upstream", id, fields: [], step: { do: "drop_upstream", upstream: id } }),
    );
  const prices = [...desired.models].flatMap(([model, { prices: rows }]) =>
    prunedPrices(model, rows, current.models.get(model), nowMs),
  );
  return [...aliases, ...prices, ...upstreams];
}
