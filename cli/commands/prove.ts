/** `tollgate prove`: whether a charge is what its units come to, computed here. */
import type { Schemas } from "../../client/operator.ts";
import type { Command, Work } from "../command.ts";
import { fault, missing, usage } from "../failure.ts";
import type { Gateway } from "../gateway.ts";
import { type Recomputed, recompute, shareNano } from "../proof.ts";
import { usd, when } from "../show/cells.ts";
import { usdText } from "../usd.ts";

const LINE = /^([a-z0-9][a-z0-9_-]{0,62}):(\d{1,15})$/;

export const proveCommand: Command = {
  words: "prove",
  args: [{ name: "call" }],
  about: "Recompute a charge from its units and rates, and compare it with the ledger",
  more: "<call> is a request id, or a line of a ledger as <account>:<entry>. Ends with 1 where something does not agree.",
  examples: ["prove 5462eabf-6681-4841-9d44-29c96dd08023", "prove acme:4711 --json"],
  async run(work) {
    const gateway = work.gateway();
    const [, account, line] = LINE.exec(work.arg("call")) ?? [];
    if (account === undefined || line === undefined) return prove(work, gateway, work.arg("call"));
    const entry = await entryOf(gateway, account, Number(line));
    if (entry.call_id === null)
      throw usage(`The entry ${line} is a ${entry.kind}, not of a call: there is nothing to recompute.`);
    return prove(work, gateway, entry.call_id);
  },
};

async function entryOf(gateway: Gateway, account: string, id: number): Promise<Schemas["LedgerEntry"]> {
  const { data } = await gateway.run("listLedgerEntries", { account, query: { cursor: id + 1, limit: 1 } });
  const entry = data.find((one) => one.id === id);
  if (!entry) throw missing(`The ledger of '${account}' has no entry ${id}.`);
  return entry;
}

async function prove(work: Work, gateway: Gateway, id: string): Promise<void> {
  const call = await gateway.run("getCall", { call: id });
  const entries = await Promise.all(
    (call.proof?.entries ?? []).map((entry) => entryOf(gateway, call.account, entry.id)),
  );
  const result = recompute(call, entries);
  if (!result) throw fault("The prices of this call were not recorded, so nothing can be recomputed.");
  const agrees = result.faults.length === 0 && call.proof?.ok === true;
  await show(work, call, entries, result, agrees);
  if (agrees) return;
  const faults = [...result.faults, ...(call.proof?.ok === true ? [] : ["the gateway itself finds it wrong"])];
  throw fault(`The charge of ${id} does not agree: ${faults.join("; ")}.`);
}

async function show(
  { print }: Work,
  call: Schemas["ProvedCall"],
  entries: readonly Schemas["LedgerEntry"][],
  result: Recomputed,
  agrees: boolean,
): Promise<void> {
  if (print.form === "json") return print.json(asJson(call, entries, result, agrees));
  if (print.form === "table") {
    await print.thing(
      [
        ["call", call.id],
        ["account", call.account],
        ["model", call.model],
        ["ended", when(call.ended_at)],
        ["price rule", call.price_rule],
      ],
      null,
    );
    await print.say("");
  }
  await print.rows(
    [
      ["unit", (line) => line.unit],
      ["quantity", (line) => ({ decimal: line.quantity })],
      ["price_usd", (line) => ({ decimal: usdText(line.priceNano) })],
      ["per", (line) => ({ decimal: String(line.per) })],
      ["amount_usd", (line) => ({ decimal: usdText(shareNano(line)) })],
    ],
    result.lines,
    { empty: "No units." },
  );
  if (print.form !== "table") return;
  await print.say("");
  await print.thing(
    [
      ["sum, rounded up", { decimal: usdText(result.sumNano) }],
      ["held", usd(call.held_usd)],
      ["due", { decimal: usdText(result.dueNano) }],
      ["charged", { decimal: usdText(result.chargedNano) }],
      [
        "in the ledger",
        `${usdText(result.bookedNano)} (${entries.map(({ id }) => `${call.account}:${id}`).join(", ") || "no entry"})`,
      ],
      ["verdict", agrees ? "agrees" : "DOES NOT AGREE"],
    ],
    null,
  );
}

const asJson = (
  call: Schemas["ProvedCall"],
  entries: readonly Schemas["LedgerEntry"][],
  { lines, sumNano, dueNano, chargedNano, bookedNano, faults }: Recomputed,
  agrees: boolean,
) => ({
  call: call.id,
  account: call.account,
  agrees,
  faults,
  lines: lines.map((line) => ({
    unit: line.unit,
    quantity: line.quantity,
    price_usd: usdText(line.priceNano),
    per: String(line.per),
  })),
  sum_usd: usdText(sumNano),
  due_usd: usdText(dueNano),
  charged_usd: usdText(chargedNano),
  booked_usd: usdText(bookedNano),
  price_rule: call.price_rule,
  entries: entries.map(({ id, at, kind }) => ({ id, at, kind })),
});
