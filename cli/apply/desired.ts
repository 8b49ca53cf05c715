/**
 * What a file wants there to be. Each thing is checked by the schema that the gateway checks it by, before anything is
 * changed. What a file does not name stays as it is.
 */
import type * as z from "zod";
import { KeyBody } from "../../src/api/kit/key-schema.ts";
import { TeamBody } from "../../src/api/kit/team-schema.ts";
import { AccountBody } from "../../src/api/operator/account-schema.ts";
import { AliasBody } from "../../src/api/operator/alias-schema.ts";
import { ModelPatch, ModelPricesBody } from "../../src/api/operator/model-schema.ts";
import { UpstreamPatch } from "../../src/api/operator/upstream-schema.ts";
import { dotted, validate } from "../../src/core/issue-words.ts";
import { usage } from "../failure.ts";
import { hint } from "../suggest.ts";

/** Fields as they are sent. */
export type Fields = { readonly [name: string]: unknown };

/** Where a credential is read: an environment variable or a file. */
export type Source = { readonly env: string } | { readonly file: string };

export interface WantedUpstream {
  readonly fields: Fields;
  readonly apiKey: Source | null;
  readonly serviceApiKey: Source | null;
}
export interface WantedPrices {
  /** Null: from now on. */
  readonly fromMs: number | null;
  /** `prices` and `free`. */
  readonly fields: Fields;
}
export interface WantedModel {
  readonly settings: Fields;
  /** Those that hold from now on, then those to come, oldest first. */
  readonly prices: readonly WantedPrices[];
}
interface WantedAlias {
  readonly alias: string;
  readonly account: string | null;
  readonly fields: Fields;
}
export interface WantedAccount {
  readonly fields: Fields;
  readonly teams: ReadonlyMap<string, Fields>;
  /** `team` is a name here. */
  readonly keys: ReadonlyMap<string, Fields>;
}
export interface Desired {
  readonly upstreams: ReadonlyMap<string, WantedUpstream>;
  readonly models: ReadonlyMap<string, WantedModel>;
  readonly aliases: readonly WantedAlias[];
  readonly accounts: ReadonlyMap<string, WantedAccount>;
  /** Sections that the file has: only these are pruned. */
  readonly sections: ReadonlySet<string>;
}

const SECTIONS = ["upstreams", "models", "aliases", "accounts"];

export function desiredIn(file: unknown): Desired {
  const whole = record(file, "The file");
  const unknown = Object.keys(whole).find((name) => !SECTIONS.includes(name));
  if (unknown !== undefined) {
    throw usage(`The file has no section '${unknown}'.${hint(unknown, SECTIONS)} It has ${SECTIONS.join(", ")}.`);
  }
  const accounts = entriesOf(whole.accounts, "accounts").map(([id, value]) => [id, accountIn(id, value)] as const);
  return {
    upstreams: new Map(entriesOf(whole.upstreams, "upstreams").map(([id, value]) => [id, upstreamIn(id, value)])),
    models: new Map(entriesOf(whole.models, "models").map(([name, value]) => [name, modelIn(name, value)])),
    aliases: [
      ...entriesOf(whole.aliases, "aliases").map(([alias, value]) => aliasIn(alias, null, value, `aliases.${alias}`)),
      ...accounts.flatMap(([, { aliases }]) => aliases),
    ],
    accounts: new Map(accounts),
    sections: new Set(Object.keys(whole)),
  };
}

function record(value: unknown, where: string): { readonly [name: string]: unknown } {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw usage(`${where} must be a list of names with their fields, such as 'acme: {name: Acme}'.`);
}

const entriesOf = (value: unknown, where: string): [string, unknown][] =>
  value === undefined || value === null ? [] : Object.entries(record(value, where));

/** The fields as they were written, once the gateway's schema takes them. */
function checked(schema: z.core.$ZodType, value: unknown, where: string): Fields {
  const outcome = validate(schema, value, { whole: where, pathOf: (path) => dotted([where, ...path]) });
  if (!outcome.ok) throw usage(outcome.complaint.message);
  return value as Fields;
}

function upstreamIn(id: string, value: unknown): WantedUpstream {
  const where = `upstreams.${id}`;
  const { api_key_from, service_api_key_from, ...fields } = record(value, where);
  for (const name of ["api_key", "service_api_key"]) {
    if (name in fields)
      throw usage(`${where}.${name}: keep credentials out of files. Write ${name}_from: env:NAME or file:PATH.`);
  }
  return {
    fields: checked(UpstreamPatch, fields, where),
    apiKey: sourceIn(api_key_from, `${where}.api_key_from`),
    serviceApiKey: sourceIn(service_api_key_from, `${where}.service_api_key_from`),
  };
}

function sourceIn(value: unknown, where: string): Source | null {
  if (value === undefined) return null;
  const [, kind, name] = /^(env|file):(.{1,1000})$/s.exec(String(value)) ?? [];
  if (kind === undefined || name === undefined) throw usage(`${where} must be env:NAME or file:PATH.`);
  return kind === "env" ? { env: name } : { file: name };
}

function modelIn(name: string, value: unknown): WantedModel {
  const where = `models.${name}`;
  const { prices, free, later, ...settings } = record(value, where);
  const rows = later === undefined ? [] : later;
  if (!Array.isArray(rows)) throw usage(`${where}.later must be a list of {from, prices}.`);
  if (prices === undefined && free !== undefined) throw usage(`${where}.free goes with prices.`);
  const now = prices === undefined ? [] : [pricesIn({ prices, free }, where)];
  const dated = rows.map((row, at) => pricesIn(row, `${where}.later.${at}`));
  const undated = dated.findIndex(({ fromMs }) => fromMs === null);
  if (undated >= 0) throw usage(`${where}.later.${undated}.from is required: when the prices begin to hold.`);
  const ordered = dated.sort((one, other) => (one.fromMs ?? 0) - (other.fromMs ?? 0));
  if (new Set(ordered.map(({ fromMs }) => fromMs)).size < ordered.length)
    throw usage(`${where}.later names a time twice.`);
  return { settings: checked(ModelPatch, settings, where), prices: [...now, ...ordered] };
}

function pricesIn(value: unknown, where: string): WantedPrices {
  const { from, ...given } = record(value, where);
  const fields = Object.fromEntries(Object.entries(given).filter(([, field]) => field !== undefined));
  const whole = { ...fields, ...(from !== undefined && { from }) };
  checked(ModelPricesBody, whole, where);
  const { from: fromMs } = canonical(ModelPricesBody, whole) as { from?: number };
  return { fromMs: fromMs ?? null, fields };
}

/** What the gateway makes of fields: money in nano-USD, times in milliseconds. */
export const canonical = (schema: z.core.$ZodType, fields: unknown): unknown => {
  const outcome = validate(schema, fields, { whole: "It", pathOf: dotted });
  if (!outcome.ok) throw new Error(`The gateway's answer is not understood: ${outcome.complaint.message}`);
  return outcome.data;
};

function aliasIn(alias: string, account: string | null, value: unknown, where: string): WantedAlias {
  const fields = record(value, where);
  if ("account" in fields) throw usage(`${where}.account: write an account's own aliases under accounts.<id>.aliases.`);
  return { alias, account, fields: checked(AliasBody, fields, where) };
}

function accountIn(id: string, value: unknown): WantedAccount & { readonly aliases: readonly WantedAlias[] } {
  const where = `accounts.${id}`;
  const { teams, keys, aliases, ...fields } = record(value, where);
  if ("id" in fields) throw usage(`${where}.id: the id is the name of the entry.`);
  checked(AccountBody, { name: id, ...fields, id }, where);
  return {
    fields: { name: id, ...fields },
    teams: new Map(
      entriesOf(teams, `${where}.teams`).map(([name, team]) => [
        name,
        named(TeamBody, name, team, `${where}.teams.${name}`),
      ]),
    ),
    keys: new Map(
      entriesOf(keys, `${where}.keys`).map(([name, key]) => [name, named(KeyBody, name, key, `${where}.keys.${name}`)]),
    ),
    aliases: entriesOf(aliases, `${where}.aliases`).map(([alias, its]) =>
      aliasIn(alias, id, its, `${where}.aliases.${alias}`),
    ),
  };
}

/** A team or a key: its name is the name of the entry. */
function named(schema: z.core.$ZodType, name: string, value: unknown, where: string): Fields {
  const fields = record(value ?? {}, where);
  if ("name" in fields) throw usage(`${where}.name: the name is that of the entry.`);
  checked(schema, { ...fields, name }, where);
  return fields;
}
