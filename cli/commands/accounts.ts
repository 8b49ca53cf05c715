/** `tollgate account ...`, `team ...` and `credit`: tenants and their money. */
import type { Schemas } from "../../client/operator.ts";
import { CHANGING, type Command, type Work } from "../command.ts";
import { confirmed } from "../confirm.ts";
import { fault, usage } from "../failure.ts";
import { usd, when, yes } from "../show/cells.ts";
import { exactly, NANO, nanoOf, usdText } from "../usd.ts";
import { countOf } from "./calls.ts";
import { collected } from "./collected.ts";

const account = { name: "account" } as const;

const list: Command = {
  words: "account list",
  about: "The live accounts with their balances",
  examples: ["account list", "account list --csv"],
  async run({ gateway, print }) {
    const rows = await collected(gateway().rows("listAccounts", {}), 100_000);
    await print.rows(
      [
        ["id", (row) => row.id],
        ["name", (row) => row.name],
        ["balance_usd", (row) => usd(row.balance_usd)],
        ["held_usd", (row) => usd(row.held_usd)],
        ["credit_limit_usd", (row) => usd(row.credit_limit_usd)],
        ["max_budget", (row) => usd(row.max_budget)],
        ["blocked", (row) => yes(row.blocked)],
        ["created", (row) => when(row.created_at)],
      ],
      rows,
      { empty: "No accounts. 'tollgate apply' or 'tollgate account import' makes some." },
    );
  },
};

const show: Command = {
  words: "account show",
  args: [account],
  about: "One account: money, limits, plan",
  examples: ["account show acme --json"],
  async run({ arg, gateway, print }) {
    const found = await gateway().run("getAccount", { account: arg("account") });
    const fields = Object.entries(found).map(([name, value]): [string, string] => [
      name,
      typeof value === "number" && /_usd$|^max_budget$/.test(name)
        ? usdText(nanoOf(value))
        : typeof value === "object" && value !== null
          ? JSON.stringify(value)
          : String(value ?? "-"),
    ]);
    await print.thing(fields, found);
  },
};

const blocking = (blocked: boolean): Command => ({
  words: blocked ? "account block" : "account unblock",
  args: [account],
  about: blocked ? "Refuse all calls of an account, until it is unblocked" : "Let a blocked account call again",
  options: CHANGING,
  async run(work: Work) {
    const { arg, gateway, print } = work;
    const found = await gateway().run("getAccount", { account: arg("account") });
    if (!(await confirmed(work, `${blocked ? "Block" : "Unblock"} the account ${found.id} (${found.name})?`))) return;
    const changed = await gateway().run("updateAccount", { account: arg("account"), body: { blocked } });
    await print.thing(
      [
        ["id", changed.id],
        ["blocked", yes(changed.blocked)],
      ],
      changed,
    );
  },
});

const ledger: Command = {
  words: "account ledger",
  args: [account],
  about: "The ledger, newest first; 'tollgate prove <account>:<id>' proves a line of a call",
  options: [{ name: "limit", value: "N", about: "at most so many lines (50)" }],
  examples: ["account ledger acme --limit 1000 --csv"],
  async run({ arg, given, gateway, print }) {
    const most = countOf(given, "limit", 50, 1_000_000);
    const query = { limit: Math.min(most, 1000) };
    const rows = await collected(gateway().rows("listLedgerEntries", { account: arg("account"), query }), most);
    await print.rows(
      [
        ["id", (row) => row.id],
        ["at", (row) => when(row.at)],
        ["kind", (row) => row.kind],
        ["amount_usd", (row) => usd(row.amount_usd)],
        ["balance_usd", (row) => usd(row.balance_usd)],
        ["model", (row) => row.model],
        ["call", (row) => row.call_id],
        ["reference", (row) => row.reference],
        ["note", (row) => row.note],
      ],
      rows,
    );
  },
};

const audit: Command = {
  words: "account audit",
  args: [account],
  about: "Recompute an account's ledger; ends with 1 where it is wrong",
  examples: ["account audit acme"],
  async run({ arg, gateway, print }) {
    const found = await gateway().run("auditAccount", { account: arg("account") });
    await print.thing(
      [
        ["ok", yes(found.ok)],
        ["entries USD", usd(found.entries_usd)],
        ["balance USD", usd(found.balance_usd)],
        ["held USD", usd(found.held_usd)],
        ["overrun USD", usd(found.overrun_usd)],
        ["operator loss USD", usd(found.operator_loss_usd)],
        ["open holds", found.open_holds],
        ["oldest hold", when(found.oldest_hold_at)],
        ["usage events on their way", found.outbox],
      ],
      found,
    );
    if (!found.ok) throw fault(`The ledger of ${arg("account")} is wrong: ${found.problems.join("; ")}`);
  },
};

const KINDS = ["top_up", "refund", "correction"] as const;

const credit: Command = {
  words: "credit",
  args: [account, { name: "usd" }],
  about: "Book a top-up, a refund or a correction, once for each reference",
  more: "The same reference again books nothing. A refund, money paid back to the tenant, is written below zero.",
  options: [
    { name: "reference", value: "TEXT", about: "of the payment; counts once per account (required)" },
    { name: "kind", value: "WORD", about: "top_up, refund or correction (top_up)" },
    { name: "call", value: "ID", about: "of a correction: the call that it is about" },
    { name: "note", value: "TEXT", about: "kept with the entry" },
    ...CHANGING,
  ],
  examples: [
    "credit acme 100 --reference invoice-17",
    "credit acme 0.25 --kind correction --call 5462eabf-6681 --reference c-1",
  ],
  async run(work) {
    const { arg, given, gateway, print } = work;
    const reference = given.text("reference");
    if (reference === undefined)
      throw usage("Name the payment with --reference: it is booked once, however often this runs.");
    const kind = KINDS.find((name) => name === (given.text("kind") ?? "top_up"));
    if (!kind) throw usage(`--kind must be one of ${KINDS.join(", ")}.`);
    const nano = amountOf(arg("usd"));
    const found = await gateway().run("getAccount", { account: arg("account") });
    const question = `Book a ${kind} of ${usdText(nano)} USD for ${found.id} (${found.name}, balance ${usdText(nanoOf(found.balance_usd))} USD)?`;
    await print.say(`${kind} ${usdText(nano)} USD, reference ${reference}`);
    if (!(await confirmed(work, question))) return;
    const [call, note] = [given.text("call"), given.text("note")];
    const body: Schemas["CreditBody"] = {
      amount_usd: usdText(nano),
      reference,
      kind,
      ...(call !== undefined && { call_id: call }),
      ...(note !== undefined && { note }),
    };
    const entry = await gateway().run("creditAccount", { account: arg("account"), body });
    await print.thing(
      [
        ["entry", `${arg("account")}:${entry.id}`],
        ["booked", when(entry.at)],
        ["amount USD", usd(entry.amount_usd)],
        ["balance USD", usd(entry.balance_usd)],
      ],
      entry,
    );
  },
};

/** Nano-USD; more than nine decimals are refused, not rounded. */
function amountOf(text: string): bigint {
  const exact = exactly(text);
  const divisor = 10n ** BigInt(exact?.scale ?? 0);
  if (!exact || (exact.digits * NANO) % divisor !== 0n) {
    throw usage(`'${text}' is no amount in USD: write it such as 12.50, with at most 9 decimals.`);
  }
  return (exact.digits * NANO) / divisor;
}

const teams: Command = {
  words: "team list",
  args: [account],
  about: "The teams of an account with their budgets",
  async run({ arg, gateway, print }) {
    const rows = await collected(gateway().rows("listTeams", { account: arg("account") }));
    await print.rows(
      [
        ["id", (row) => row.id],
        ["name", (row) => row.name],
        ["max_budget", (row) => usd(row.max_budget)],
        ["window", (row) => row.budget_duration],
        ["spent_usd", (row) => usd(row.spent_usd)],
        ["last_used", (row) => when(row.last_used_at)],
        ["blocked", (row) => yes(row.blocked)],
      ],
      rows,
      { empty: "No teams. 'tollgate apply' makes them from a file." },
    );
  },
};

export const ACCOUNT_COMMANDS: readonly Command[] = [
  list,
  show,
  blocking(true),
  blocking(false),
  ledger,
  audit,
  credit,
  teams,
];
