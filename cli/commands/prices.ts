/** `tollgate price ...`: the price book. */
import type { Schemas } from "../../client/operator.ts";
import { CHANGING, type Command, type Work } from "../command.ts";
import { confirmed } from "../confirm.ts";
import { Failure, missing, usage } from "../failure.ts";
import { matchesAny } from "../glob.ts";
import { usd, when, yes } from "../show/cells.ts";
import { type Exact, exactly, nanoOf, raised, usdText } from "../usd.ts";
import { collected } from "./collected.ts";

type Row = Schemas["PriceBookRow"];
type Prices = Row["prices"];

interface Line {
  readonly model: string;
  readonly unit: string;
  readonly row: Row;
  readonly cost: number;
  readonly price: number | null;
}

const linesOf = (row: Row): Line[] =>
  Object.entries(row.prices).map(([unit, { cost_usd, price_usd }]) => ({
    model: row.model,
    unit,
    row,
    cost: cost_usd,
    price: price_usd,
  }));

const list: Command = {
  words: "price list",
  about: "Each model with the prices that hold now",
  options: [{ name: "models", value: "GLOB", about: "such as 'llama-*', several between commas" }],
  examples: ["price list --models 'llama-*'"],
  async run({ given, gateway, print }) {
    const pattern = given.text("models") ?? "*";
    const rows = (await collected(gateway().rows("listModels", {}))).filter(({ model }) => matchesAny(pattern, model));
    await print.rows(
      [
        ["model", (line) => line.model],
        ["kind", (line) => line.row.kind],
        ["upstream", (line) => line.row.upstream],
        ["unit", (line) => line.unit],
        ["cost_usd", (line) => usd(line.cost)],
        ["price_usd", (line) => (line.row.free ? "free" : (usd(line.price) ?? "by plan"))],
        ["from", (line) => when(line.row.from)],
      ],
      rows.flatMap(linesOf),
      { json: { data: rows }, empty: "No model of this name has prices." },
    );
  },
};

const show: Command = {
  words: "price show",
  args: [{ name: "model" }],
  about: "A model's prices by date, those to come first",
  examples: ["price show llama-3.1-70b"],
  async run({ arg, gateway, print, io }) {
    const found = await gateway().run("getModel", { model: arg("model") });
    const holds = found.history.find(({ from }) => from !== null && Date.parse(from) <= io.now());
    const stateOf = (row: Row) =>
      row === holds ? "holds" : Date.parse(row.from ?? "") > io.now() ? "to come" : "past";
    await print.rows(
      [
        ["from", (line) => when(line.row.from)],
        ["state", (line) => stateOf(line.row)],
        ["unit", (line) => line.unit],
        ["cost_usd", (line) => usd(line.cost)],
        ["price_usd", (line) => (line.row.free ? "free" : (usd(line.price) ?? "by plan"))],
      ],
      found.history.flatMap(linesOf),
      { json: found, empty: "This model has no prices yet." },
    );
  },
};

interface Raise {
  readonly model: string;
  readonly before: Row;
  readonly prices: Schemas["ModelPricesBody"]["prices"];
  /** The same prices stand at that time already: a raise that is run again raises nothing twice. */
  readonly done: boolean;
}

const raise: Command = {
  words: "price raise",
  about: "Raise prices by a percentage from a time on, as dated rows; costs stay",
  more: "A model that already has a row at that very time is left as it is, so a run that broke off is run again.",
  options: [
    { name: "percent", value: "N", about: "such as 10 or 2.5; below zero lowers (required)" },
    { name: "from", value: "TIME", about: "when they begin to hold, such as 2027-01-01 (required)" },
    { name: "models", value: "GLOB", about: "such as 'llama-*', several between commas (required)" },
    { name: "allow-loss", about: "also where an alias would then cost more than it is sold for" },
    ...CHANGING,
  ],
  examples: ["price raise --percent 10 --from 2027-01-01 --models 'llama-*' --dry-run"],
  async run(work) {
    const { gateway, print } = work;
    const { percent, fromMs, pattern } = raiseGiven(work);
    const models = await collected(gateway().rows("listModels", {}));
    const chosen = models.filter(({ model }) => matchesAny(pattern, model));
    if (chosen.length === 0) throw missing(`No model is named like ${pattern}. 'tollgate price list' shows them.`);
    const raises: Raise[] = [];
    const left: string[] = [];
    for (const { model } of chosen) {
      const planned = raiseOf(await gateway().run("getModel", { model }), percent, fromMs);
      if (planned) raises.push(planned);
      else left.push(model);
    }
    await preview(work, raises, left, fromMs);
    const open = raises.filter(({ done }) => !done);
    if (open.length === 0) return print.say("Nothing to change.");
    if (!(await confirmed(work, `Set ${open.length} dated rows?`))) return;
    await carryOut(work, open, fromMs);
  },
};

function raiseGiven({ given, io }: Work): { percent: Exact; fromMs: number; pattern: string } {
  const percent = exactly(given.text("percent") ?? "");
  const pattern = given.text("models");
  const fromMs = timeOf(given.text("from"));
  if (!percent || pattern === undefined || fromMs === undefined) {
    throw usage("Give --percent, --from and --models. Add --help for an example.");
  }
  if (fromMs <= io.now()) throw usage("--from is past: what was charged stays as it was. Name a time to come.");
  if (percent.digits <= -100n * 10n ** BigInt(percent.scale)) throw usage("--percent must be above -100.");
  return { percent, fromMs, pattern };
}

const TIME = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d{1,3})?)?(Z|[+-]\d{2}:\d{2}))?$/;

/** A day alone begins at midnight UTC. */
function timeOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const ms = TIME.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(ms)) throw usage(`'${text}' is no time such as 2027-01-01 or 2027-01-01T00:00:00Z.`);
  return ms;
}

/** Undefined: nothing there has a price of its own. The prices that are raised are those that hold right before. */
function raiseOf(model: Schemas["Model"], percent: Exact, fromMs: number): Raise | undefined {
  const rows = model.history.filter(({ from }) => from !== null);
  const before = rows.find(({ from }) => Date.parse(from ?? "") < fromMs);
  if (!before || before.free || Object.values(before.prices).every(({ price_usd }) => price_usd === null))
    return undefined;
  const prices = Object.fromEntries(
    Object.entries(before.prices).map(([unit, { cost_usd, price_usd }]) => [
      unit,
      {
        cost_usd: usdText(nanoOf(cost_usd)),
        price_usd: price_usd === null ? null : usdText(raised(nanoOf(price_usd), percent)),
      },
    ]),
  );
  const done = rows.some(({ from }) => Date.parse(from ?? "") === fromMs);
  return { model: model.model, before, prices, done };
}

async function preview(
  { print }: Work,
  raises: readonly Raise[],
  left: readonly string[],
  fromMs: number,
): Promise<void> {
  const lines = raises.flatMap(({ model, before, prices, done }) =>
    (Object.entries(before.prices) as [keyof Prices, NonNullable<Prices[keyof Prices]>][]).flatMap(
      ([unit, { price_usd }]) =>
        price_usd === null ? [] : [{ model, unit, is: price_usd, will: String(prices[unit]?.price_usd), done }],
    ),
  );
  const from = new Date(fromMs).toISOString();
  await print.rows(
    [
      ["model", (line) => line.model],
      ["unit", (line) => line.unit],
      ["is_usd", (line) => usd(line.is)],
      ["will_be_usd", (line) => ({ decimal: line.will })],
      ["from", () => when(from)],
      ["there_already", (line) => yes(line.done)],
    ],
    lines,
    {
      json: {
        from,
        data: lines.map(({ is, will, done, ...line }) => ({
          ...line,
          is_usd: usdText(nanoOf(is)),
          will_be_usd: will,
          there_already: done,
        })),
        left,
      },
      empty: "None of these models has a price of its own.",
    },
  );
  if (left.length > 0) await print.say(`Left as they are, without a price of their own: ${left.join(", ")}`);
}

async function carryOut({ given, gateway, print }: Work, raises: readonly Raise[], fromMs: number): Promise<void> {
  const from = new Date(fromMs).toISOString();
  const refusals: string[] = [];
  for (const { model, before, prices } of raises) {
    const body = { prices, free: before.free, from, ...(given.flag("allow-loss") && { allow_loss: true }) };
    try {
      await gateway().run("putModelPrices", { model, body });
    } catch (error) {
      if (!(error instanceof Error && "status" in error && error.status === 409)) throw error;
      refusals.push(`${model}: ${reasonIn(error)}`);
    }
  }
  await print.say(`${raises.length - refusals.length} rows set.`);
  if (refusals.length > 0) throw new Failure("refused", `Not set:\n${refusals.join("\n")}`, "margin");
}

const reasonIn = (error: Error): string =>
  String((error as { body?: { error?: { message?: unknown } } }).body?.error?.message ?? error.message);

const withdraw: Command = {
  words: "price withdraw",
  args: [{ name: "model" }],
  about: "Take back prices of a model that are to come",
  options: [{ name: "from", value: "TIME", about: "of the row, as 'price show' has it (required)" }, ...CHANGING],
  examples: ["price withdraw llama-3.1-70b --from 2027-01-01 --yes"],
  async run(work) {
    const { arg, given, gateway, print } = work;
    const fromMs = timeOf(given.text("from"));
    if (fromMs === undefined) throw usage("Name the row with --from.");
    if (!(await confirmed(work, `Take back the prices of ${arg("model")} from ${given.text("from")} on?`))) return;
    const from = new Date(fromMs).toISOString();
    const gone = await gateway().run("deleteModelPrices", { model: arg("model"), from });
    await print.thing([["taken back", gone.id]], gone);
  },
};

export const PRICE_COMMANDS: readonly Command[] = [list, show, raise, withdraw];
