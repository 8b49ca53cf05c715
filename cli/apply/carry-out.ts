/**
 * Makes the changes, one after the other, so that a run that is killed stands at one place and can go on from there.
 */
import { randomUUID } from "node:crypto";
import type { Schemas } from "../../client/operator.ts";
import { collected } from "../commands/collected.ts";
import { secretOf } from "../commands/keys.ts";
import { fault, usage } from "../failure.ts";
import type { Gateway } from "../gateway.ts";
import type { Journal, Pending } from "../local/journal.ts";
import { addToKeysFile, openKeysFile } from "../local/keys-file.ts";
import { readPrivate } from "../local/private-file.ts";
import type { KeysSent, Step } from "./change.ts";
import type { Fields, Source } from "./desired.ts";

export interface Carrying {
  readonly gateway: Gateway;
  readonly journal: Journal;
  /** Null: no key is made. */
  readonly keysOut: string | null;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly allowLoss: boolean;
  now(): number;
}

export async function carryOut(step: Step, carrying: Carrying): Promise<void> {
  const { gateway } = carrying;
  switch (step.do) {
    case "make_upstream":
    case "change_upstream": {
      const body = { ...step.body, ...credentials(step.keys, carrying.env) } as Schemas["UpstreamBody"];
      await gateway.run(step.do === "make_upstream" ? "putUpstream" : "updateUpstream", {
        upstream: step.upstream,
        body,
      });
      return;
    }
    case "make_model":
      return void (await gateway.run("putModel", { model: step.model, body: step.body as Schemas["ModelBody"] }));
    case "change_model":
      return void (await gateway.run("updateModel", { model: step.model, body: step.body }));
    case "set_prices": {
      const body = loss(step.body, carrying) as Schemas["ModelPricesBody"];
      return void (await gateway.run("putModelPrices", { model: step.model, body }));
    }
    case "make_alias":
    case "change_alias":
      return alias(step, carrying);
    case "make_account":
      return void (await gateway.run("createAccount", { body: loss(step.body, carrying) as Schemas["AccountBody"] }));
    case "change_account":
      return void (await gateway.run("updateAccount", { account: step.account, body: loss(step.body, carrying) }));
    case "make_team":
      return makeTeam(step, carrying);
    case "change_team":
      return void (await gateway.run("updateTeam", { account: step.account, team: step.team, body: step.body }));
    case "make_key":
      return makeKey(step, carrying);
    case "change_key": {
      const body = await withTeamId(gateway, step.account, step.body);
      return void (await gateway.run("updateKey", { account: step.account, key: step.key, body }));
    }
    case "drop_alias":
      return void (await gateway.run("deleteAlias", {
        alias: step.alias,
        query: { account: step.account ?? undefined },
      }));
    case "drop_prices":
      return void (await gateway.run("deleteModelPrices", { model: step.model, from: step.from }));
    case "drop_upstream":
      return void (await gateway.run("deleteUpstream", { upstream: step.upstream }));
  }
}

const loss = (body: Fields, { allowLoss }: Carrying): Fields => ({ ...body, ...(allowLoss && { allow_loss: true }) });

async function alias(step: Step & { readonly do: "make_alias" | "change_alias" }, carrying: Carrying): Promise<void> {
  const { alias: name, account } = step;
  const body = loss(step.body, carrying) as Schemas["AliasBody"];
  if (step.do === "make_alias") {
    await carrying.gateway.run("putAlias", { alias: name, body: { ...body, ...(account !== null && { account }) } });
  } else {
    await carrying.gateway.run("updateAlias", { alias: name, query: { account: account ?? undefined }, body });
  }
}

/** Read when they are needed, so that they are nowhere else. */
function credentials({ apiKey, serviceApiKey }: KeysSent, env: Carrying["env"]): Fields {
  return {
    ...(apiKey && { api_key: secretAt(apiKey, env) }),
    ...(serviceApiKey && { service_api_key: secretAt(serviceApiKey, env) }),
  };
}

export function secretAt(source: Source, env: Carrying["env"]): string {
  const text = ("env" in source ? env[source.env] : readPrivate(source.file))?.trim();
  if (text) return text;
  throw usage(
    "env" in source
      ? `The environment has no ${source.env}: a credential is read from it.`
      : `${source.file} is not there or empty.`,
  );
}

async function makeTeam(
  { account, name, body }: Step & { readonly do: "make_team" },
  { gateway, journal, now }: Carrying,
) {
  const begun = journal.begin("team", account, name, now());
  await sentOnce(begun, (idempotencyKey) =>
    gateway.run("createTeam", { account, body: body as Schemas["TeamBody"], idempotencyKey }),
  );
  journal.end(begun);
}

async function makeKey(step: Step & { readonly do: "make_key" }, carrying: Carrying): Promise<void> {
  const { account, name } = step;
  const { gateway, journal, keysOut } = carrying;
  if (keysOut === null) throw usage("Keys are to be made: say where their secrets go with --keys-out FILE.");
  const body = (await withTeamId(gateway, account, step.body)) as Schemas["KeyBody"];
  const begun = journal.begin("key", account, name, carrying.now());
  const made = await sentOnce(begun, (idempotencyKey) => gateway.run("createKey", { account, body, idempotencyKey }));
  await keep(made, begun, carrying, keysOut);
}

/** Writes the secret down, unless an earlier run did, and only then forgets that the key was begun. */
async function keep(
  made: Schemas["NewKey"],
  begun: Pending,
  { gateway, journal }: Carrying,
  keysOut: string,
): Promise<void> {
  const { account, name } = begun;
  if (!openKeysFile(keysOut).has(made.id)) {
    addToKeysFile(keysOut, { account, name, keyId: made.id, secret: await secretOf(gateway, account, made) });
  }
  journal.end(begun);
}

/** With another body than before, the idempotency key of the earlier run is of no use: that run made nothing. */
async function sentOnce<Answer>(begun: Pending, ask: (idempotencyKey: string) => Promise<Answer>): Promise<Answer> {
  try {
    return await ask(begun.idempotencyKey);
  } catch (error) {
    if (
      !(error instanceof Error && "status" in error && error.status === 409 && /idempotency_error/.test(error.message))
    )
      throw error;
    return ask(randomUUID());
  }
}

async function withTeamId(gateway: Gateway, account: string, body: Fields): Promise<Fields> {
  if (typeof body.team !== "string") return body;
  for await (const { id, name } of gateway.rows("listTeams", { account, query: { limit: 1000 } })) {
    if (name === body.team) return { ...body, team: id };
  }
  throw fault(`The account '${account}' has no team named '${body.team}' any more.`);
}

/** The clocks of this machine and of the gateway may differ by so much. */
const CLOCKS_MS = 5 * 60_000;

/**
 * Keys that an earlier run made and whose secrets it never wrote down: they get another secret. Those whose secret
 * stands in the file, and what is older than that run, are left as they are. Gives what was rotated.
 */
export async function recover(carrying: Carrying): Promise<string[]> {
  const { gateway, journal, keysOut } = carrying;
  const rotated: string[] = [];
  for (const begun of journal.pending) {
    if (begun.kind !== "key" || keysOut === null) continue;
    const account = await gateway.find("getAccount", { account: begun.account });
    if (!account || account.deleted_at !== null) continue;
    const keys = await collected(gateway.rows("listKeys", { account: begun.account, query: { limit: 1000 } }), 20_000);
    const made = keys.find(
      ({ name, created_at }) => name === begun.name && Date.parse(created_at) >= begun.sinceMs - CLOCKS_MS,
    );
    if (!made) continue;
    const known = openKeysFile(keysOut).has(made.id);
    await keep({ ...made, key: null }, begun, carrying, keysOut);
    if (!known) rotated.push(`${begun.account}/${begun.name}`);
  }
  return rotated;
}
