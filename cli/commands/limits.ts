/** `tollgate limits`: each limit and budget with what is left; with options, sets them. */
import type { Schemas } from "../../client/operator.ts";
import { CHANGING, type Command, type Given, type Option, type Work } from "../command.ts";
import { confirmed } from "../confirm.ts";
import { usage } from "../failure.ts";
import { when } from "../show/cells.ts";
import { nanoOf, usdText } from "../usd.ts";
import { collected } from "./collected.ts";

const COUNTS = {
  rpm: "rpm_limit",
  tpm: "tpm_limit",
  rpd: "rpd_limit",
  parallel: "max_parallel_requests",
  "free-rpm": "free_rpm_limit",
  gpus: "max_gpus",
} as const;

const LIMIT_OPTIONS: readonly Option[] = [
  { name: "rpm", value: "N", about: "requests a minute; 'none' takes the limit away" },
  { name: "tpm", value: "N", about: "tokens a minute" },
  { name: "rpd", value: "N", about: "requests a day" },
  { name: "parallel", value: "N", about: "calls at once" },
  { name: "free-rpm", value: "N", about: "free calls a minute" },
  { name: "gpus", value: "N", about: "GPUs at once" },
  { name: "budget", value: "USD", about: "USD in a budget window" },
  { name: "window", value: "WORD", about: "of the budget: day, week, month, total" },
];

/** The limits that options name. */
function limitsGiven(given: Given): Schemas["TeamPatch"] {
  const counts = Object.entries(COUNTS).flatMap(([option, field]): [string, number | null][] => {
    const text = given.text(option);
    if (text === undefined) return [];
    if (text === "none") return [[field, null]];
    if (!/^\d{1,15}$/.test(text)) throw usage(`--${option} must be a whole number, or none.`);
    return [[field, Number(text)]];
  });
  const budget = given.text("budget");
  const window = given.text("window");
  return {
    ...Object.fromEntries(counts),
    ...(budget !== undefined && { max_budget: budget === "none" ? null : budget }),
    ...(window !== undefined && { budget_duration: windowOf(window) }),
  };
}

const WINDOWS = ["day", "week", "month", "total"] as const;
function windowOf(text: string): (typeof WINDOWS)[number] {
  const found = WINDOWS.find((window) => window === text);
  if (found) return found;
  throw usage(`--window must be one of ${WINDOWS.join(", ")}.`);
}

export const limitsCommand: Command = {
  words: "limits",
  args: [{ name: "account" }],
  about: "Limits and budgets of an account, its teams and keys; with options, sets them",
  more: "Sets those of the account, or of --team or --key.",
  options: [
    { name: "team", value: "ID", about: "a team's" },
    { name: "key", value: "ID", about: "a key's" },
    ...LIMIT_OPTIONS,
    ...CHANGING,
  ],
  examples: [
    "limits acme",
    "limits acme --rpm 600 --budget 250 --window month",
    "limits acme --team team_1 --budget none",
  ],
  async run(work) {
    const changes = limitsGiven(work.given);
    if (Object.keys(changes).length > 0) return setLimits(work, changes);
    const { team, key } = { team: work.given.text("team"), key: work.given.text("key") };
    const levels = await collected(work.gateway().rows("listLimits", { account: work.arg("account") }), 20_000);
    const shown = levels.filter(({ id }) => (team === undefined && key === undefined) || id === team || id === key);
    const rows = shown.flatMap(({ level, id, name, limits }) => limits.map((limit) => ({ level, id, name, ...limit })));
    await work.print.rows(
      [
        ["level", (row) => row.level],
        ["id", (row) => row.id],
        ["name", (row) => row.name],
        ["limit", (row) => row.limit],
        ["allowed", (row) => amount(row.limit, row.allowed)],
        ["used", (row) => amount(row.limit, row.used)],
        ["left", (row) => amount(row.limit, row.left)],
        ["frees_at", (row) => when(row.frees_at)],
      ],
      rows,
      { json: { data: shown }, empty: "No limit and no budget is set." },
    );
  },
};

const amount = (limit: string, value: number) =>
  limit === "max_budget" ? { decimal: usdText(nanoOf(value)) } : { decimal: String(value) };

async function setLimits(work: Work, changes: Schemas["TeamPatch"]): Promise<void> {
  const { given, print } = work;
  const account = work.arg("account");
  const [team, key] = [given.text("team"), given.text("key")];
  if (team !== undefined && key !== undefined) throw usage("Give --team or --key, not both.");
  const gateway = work.gateway();
  const before = (
    team !== undefined
      ? await gateway.run("getTeam", { account, team })
      : key !== undefined
        ? await gateway.run("getKey", { account, key })
        : await gateway.run("getAccount", { account })
  ) as { readonly [field: string]: unknown };
  const what =
    team !== undefined ? `the team ${team}` : key !== undefined ? `the key ${key}` : `the account ${account}`;
  const rows = Object.entries(changes).map(([field, to]) => ({ field, from: before[field] ?? null, to: to ?? null }));
  await print.rows(
    [
      ["limit", (row) => row.field],
      ["is", (row) => String(row.from ?? "none")],
      ["will_be", (row) => String(row.to ?? "none")],
    ],
    rows,
    { json: { dry_run: given.flag("dry-run"), of: { account, team: team ?? null, key: key ?? null }, changes: rows } },
  );
  if (!(await confirmed(work, `Set these limits of ${what}?`))) return;
  if (team !== undefined) await gateway.run("updateTeam", { account, team, body: changes });
  else if (key !== undefined) await gateway.run("updateKey", { account, key, body: changes });
  else await gateway.run("updateAccount", { account, body: changes });
  await print.say("Done.");
}
