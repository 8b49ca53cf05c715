/** `tollgate apply` and `tollgate account import`: what there is to be, from a file. */
import { closeSync, fstatSync, openSync, readFileSync } from "node:fs";
import { type Carrying, carryOut, recover, secretAt } from "../apply/carry-out.ts";
import type { Change } from "../apply/change.ts";
import { readCurrent } from "../apply/current.ts";
import { type Desired, desiredIn } from "../apply/desired.ts";
import { difference } from "../apply/difference.ts";
import { MOST_YAML_BYTES, readYaml } from "../apply/file.ts";
import { showChanges } from "../apply/show-changes.ts";
import { tenantsIn } from "../apply/tenants.ts";
import { CHANGING, type Command, type Option, type Work } from "../command.ts";
import { confirmed } from "../confirm.ts";
import { Failure, fault, usage } from "../failure.ts";
import { failureOf } from "../gateway.ts";
import { MOST_CSV_BYTES } from "../local/csv-reader.ts";
import { Journal } from "../local/journal.ts";
import { openKeysFile } from "../local/keys-file.ts";
import { withoutKeys } from "../show/safe.ts";

const KEYS_OUT: Option = {
  name: "keys-out",
  value: "FILE",
  about: "add the secrets of made keys to this file of mode 0600",
};
const ALLOW_LOSS: Option = { name: "allow-loss", about: "also where an alias would cost more than it is sold for" };

const applyCommand: Command = {
  words: "apply",
  args: [{ name: "file" }],
  about: "Make what a YAML file says: upstreams, models, prices, aliases, accounts, teams, keys",
  more: "Shows the difference first. Deletes nothing but what --prune names. Killed in the middle, run it again.",
  options: [
    KEYS_OUT,
    {
      name: "prune",
      about: "delete aliases, prices to come and upstreams that the file does not have, in sections that it has",
    },
    { name: "credentials", about: "send the credentials of upstreams again" },
    ALLOW_LOSS,
    ...CHANGING,
  ],
  examples: ["apply tollgate.yaml --dry-run", "apply tollgate.yaml --keys-out keys.csv --yes"],
  run: (work) => apply(work, desiredIn(readYaml(textOf(work.arg("file"), MOST_YAML_BYTES))), work.arg("file")),
};

const importCommand: Command = {
  words: "account import",
  args: [{ name: "file" }],
  about: "Make accounts with their keys from a CSV file; twice makes nothing twice",
  more: "Columns: id, and any of name, balance_usd, credit_limit_usd, bills_monthly, markup_percent, the limits, team, key, key_role, key_models.",
  options: [KEYS_OUT, ALLOW_LOSS, ...CHANGING],
  examples: ["account import tenants.csv --keys-out keys.csv"],
  run: (work) => apply(work, tenantsIn(textOf(work.arg("file"), MOST_CSV_BYTES)), work.arg("file")),
};

/** To a bound, whatever it is: a file may grow, or be a device. */
function textOf(path: string, most: number): string {
  let file: number;
  try {
    file = openSync(path, "r");
  } catch (error) {
    throw usage(`${path} cannot be read (${error instanceof Error && "code" in error ? String(error.code) : "?"}).`);
  }
  try {
    const stat = fstatSync(file);
    if (!stat.isFile()) throw usage(`${path} is not a plain file.`);
    if (stat.size > most) throw usage(`${path} has more than ${most} bytes: split it.`);
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(readFileSync(file).subarray(0, most));
  } catch (error) {
    if (error instanceof TypeError) throw usage(`${path} is not UTF-8.`);
    throw error;
  } finally {
    closeSync(file);
  }
}

async function apply(work: Work, desired: Desired, input: string): Promise<void> {
  const { given, gateway, io } = work;
  if (given.flag("dry-run")) return plan(work, desired).then((changes) => shown(work, changes, desired, []));
  const keysOut = given.text("keys-out") ?? null;
  const journal = new Journal(input);
  try {
    const carrying: Carrying = {
      gateway: gateway(),
      journal,
      keysOut,
      env: io.env,
      allowLoss: given.flag("allow-loss"),
      now: io.now,
    };
    await run(work, desired, carrying);
  } finally {
    journal.close();
  }
}

async function plan({ given, gateway, io }: Work, desired: Desired): Promise<Change[]> {
  const prune = given.flag("prune");
  const current = await readCurrent(gateway(), desired, prune);
  return difference(desired, current, { prune, nowMs: io.now(), credentials: given.flag("credentials") });
}

async function shown(
  work: Work,
  changes: readonly Change[],
  desired: Desired,
  rotated: readonly string[],
): Promise<void> {
  await showChanges(work, changes, sizeOf(desired), rotated);
}

const sizeOf = ({ upstreams, models, aliases, accounts }: Desired): number =>
  upstreams.size +
  models.size +
  aliases.length +
  [...accounts.values()].reduce((sum, { teams, keys }) => sum + 1 + teams.size + keys.size, 0);

async function run(work: Work, desired: Desired, carrying: Carrying): Promise<void> {
  const { print } = work;
  const unsaved = carrying.journal.pending.filter(({ kind }) => kind === "key");
  if (unsaved.length > 0 && carrying.keysOut === null) {
    throw usage("An earlier run was cut off while it made keys: say --keys-out FILE, as it did.");
  }
  const changes = await plan(work, desired);
  checkBefore(changes, carrying);
  await shown(
    work,
    changes,
    desired,
    unsaved.map(({ account, name }) => `${account}/${name}`),
  );
  if (changes.length === 0 && unsaved.length === 0) return carrying.journal.clear();
  if (!(await confirmed(work, `Make ${changes.length} changes at ${carrying.gateway.url}?`))) return;
  for (const name of await recover(carrying))
    await print.say(`rotated  key ${name}: the secret of an earlier run was lost`);
  for (const [at, change] of changes.entries()) {
    try {
      await carryOut(change.step, carrying);
    } catch (error) {
      throw brokenOff(failureOf(error, carrying.gateway.url), change, at, changes.length);
    }
    await print.say(`${DONE[change.op]}  ${change.kind} ${change.id}`);
  }
  carrying.journal.clear();
  await print.say(`Done: ${changes.length} changes.`);
}

const DONE = { make: "made   ", change: "changed", drop: "deleted" } as const;

/** What would fail in the middle is found before the first change. */
function checkBefore(changes: readonly Change[], { keysOut, env }: Carrying): void {
  const keys = changes.filter(({ step }) => step.do === "make_key").length;
  if (keys > 0 && keysOut === null)
    throw usage(`${keys} keys are to be made: say where their secrets go with --keys-out FILE.`);
  if (keysOut !== null) openKeysFile(keysOut);
  for (const { step } of changes) {
    if (step.do !== "make_upstream" && step.do !== "change_upstream") continue;
    for (const source of [step.keys.apiKey, step.keys.serviceApiKey]) if (source) secretAt(source, env);
  }
}

function brokenOff(error: unknown, { kind, id }: Change, made: number, all: number): Error {
  const known = error instanceof Failure ? error : fault(error instanceof Error ? error.message : String(error));
  const message = `${kind} ${id}: ${known.message}\n${made} of ${all} changes were made. The same command goes on from there.`;
  return new Failure(known.ending, withoutKeys(message), known.code);
}

export const APPLY_COMMANDS: readonly Command[] = [applyCommand, importCommand];
