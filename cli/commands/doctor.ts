/** `tollgate doctor`: looks for what is wrong, and says what to do. Changes nothing and calls no upstream. */

import type { Schemas } from "../../client/operator.ts";
import { version } from "../../package.json";
import type { Command, Work } from "../command.ts";
import { fault } from "../failure.ts";
import type { Gateway } from "../gateway.ts";
import { nanoOf, usdText } from "../usd.ts";
import { collected, ifAllowed } from "./collected.ts";
import { healthOf } from "./status.ts";

type Verdict = "ok" | "look" | "wrong" | "skipped";
interface Finding {
  readonly check: string;
  readonly verdict: Verdict;
  /** What was found, and what to do. */
  readonly finding: string;
}

const MOST_CLOCK_MS = 30_000;
/** Accounts whose ledgers are recomputed: that reads each whole. */
const MOST_AUDITS = 1_000;

export const doctorCommand: Command = {
  words: "doctor",
  about: "Look for what is wrong and say what to do; ends with 1 where something is",
  more: "Changes nothing. 'tollgate upstream check' calls an upstream.",
  options: [{ name: "audit", about: "recompute the ledger of every account, too" }],
  examples: ["doctor", "doctor --audit --json"],
  async run(work) {
    const findings: Finding[] = [];
    findings.push(...(await gatewayFindings(work)));
    const gateway = work.gateway();
    const accounts = await collected(gateway.rows("listAccounts", {}), 100_000);
    findings.push({ check: "token", verdict: "ok", finding: "The gateway knows it." });
    findings.push(...(await upstreamFindings(gateway)));
    findings.push(...(await priceFindings(gateway)));
    findings.push(accountFinding(accounts));
    if (work.given.flag("audit")) findings.push(await auditFinding(gateway, accounts));
    await work.print.rows(
      [
        ["check", (row) => row.check],
        ["verdict", (row) => row.verdict],
        ["finding", (row) => row.finding],
      ],
      findings,
    );
    const wrong = findings.filter(({ verdict }) => verdict === "wrong").length;
    if (wrong > 0) throw fault(`${wrong} of ${findings.length} checks found something wrong.`);
  },
};

async function gatewayFindings(work: Work): Promise<Finding[]> {
  const { url, health, date } = await healthOf(work);
  const apart = date === null ? 0 : Math.abs(Date.parse(date) - work.io.now());
  const same = health.version === version;
  return [
    {
      check: "gateway",
      verdict: "ok",
      finding: `${url} runs ${health.version}${health.commit ? `, ${health.commit}` : ""}.`,
    },
    {
      check: "versions",
      verdict: same ? "ok" : "look",
      finding: same ? "The same here and there." : `This command line is ${version}: check out the gateway's version.`,
    },
    {
      check: "clock",
      verdict: apart > MOST_CLOCK_MS ? "look" : "ok",
      finding:
        apart > MOST_CLOCK_MS
          ? `This machine and the gateway differ by ${Math.round(apart / 1000)} s: set the clock, dated prices depend on it.`
          : "The gateway's and this machine's agree.",
    },
  ];
}

async function upstreamFindings(gateway: Gateway): Promise<Finding[]> {
  const upstreams = await ifAllowed(collected(gateway.rows("listUpstreams", {})));
  if (!upstreams) return [{ check: "upstreams", verdict: "skipped", finding: "Not for this role." }];
  if (upstreams.length === 0) {
    return [
      { check: "upstreams", verdict: "wrong", finding: "There is none: 'tollgate apply' makes one from a file." },
    ];
  }
  return Promise.all(
    upstreams.map(async ({ id }): Promise<Finding> => {
      const { state, errors } = await gateway.run("getUpstreamHealth", { upstream: id, query: { minutes: 15 } });
      const check = `upstream ${id}`;
      if (state === "up" || state === "idle")
        return { check, verdict: "ok", finding: state === "up" ? "Up." : "Nobody called." };
      const last = errors[0] ? `, last ${errors[0].result} on ${errors[0].model}` : "";
      const finding = `${state}${last}. Run: tollgate upstream check ${id}`;
      return { check, verdict: state === "down" ? "wrong" : "look", finding };
    }),
  );
}

async function priceFindings(gateway: Gateway): Promise<Finding[]> {
  const [models, aliases] = [
    await collected(gateway.rows("listModels", {})),
    await collected(gateway.rows("listAliases", {})),
  ];
  const bare = models.filter(({ from }) => from === null).map(({ model }) => model);
  const losing = aliases.filter(({ margins }) => margins.some(({ loss }) => loss)).map(({ alias }) => alias);
  const known = new Set(models.map(({ model }) => model));
  const nowhere = aliases
    .filter(({ targets }) => targets.every(({ model }) => !known.has(model)))
    .map(({ alias }) => alias);
  const finding = (check: string, names: readonly string[], verdict: Verdict, fine: string, said: string): Finding => ({
    check,
    verdict: names.length === 0 ? "ok" : verdict,
    finding: names.length === 0 ? fine : `${said}: ${some(names)}`,
  });
  return [
    finding(
      "prices",
      bare,
      "wrong",
      "Every model has prices.",
      "Without prices, so calls get 402 (set them with 'tollgate apply')",
    ),
    finding(
      "margins",
      losing,
      "wrong",
      "No alias costs more than it is sold for.",
      "Sold below cost ('tollgate price raise', or take the target out)",
    ),
    finding(
      "aliases",
      nowhere,
      "look",
      "Every alias has a target in the price book.",
      "Only targets that the price book does not have",
    ),
  ];
}

const MOST_NAMED = 8;
const some = (names: readonly string[]): string =>
  `${names.slice(0, MOST_NAMED).join(", ")}${names.length > MOST_NAMED ? ` and ${names.length - MOST_NAMED} more` : ""}`;

function accountFinding(accounts: readonly Schemas["Account"][]): Finding {
  const dry = accounts.filter(
    ({ balance_usd, held_usd, credit_limit_usd, bills_monthly, blocked }) =>
      !blocked && nanoOf(balance_usd) - nanoOf(held_usd) + (bills_monthly ? nanoOf(credit_limit_usd) : 0n) <= 0n,
  );
  const names = dry.map(({ id, balance_usd }) => `${id} (${usdText(nanoOf(balance_usd))} USD)`);
  if (names.length === 0)
    return { check: "balances", verdict: "ok", finding: `Each of ${accounts.length} accounts can pay.` };
  return { check: "balances", verdict: "look", finding: `Can pay for no call: ${some(names)}` };
}

async function auditFinding(gateway: Gateway, accounts: readonly Schemas["Account"][]): Promise<Finding> {
  const wrong: string[] = [];
  for (const { id } of accounts.slice(0, MOST_AUDITS)) {
    const { ok } = await gateway.run("auditAccount", { account: id });
    if (!ok) wrong.push(id);
  }
  const count = Math.min(accounts.length, MOST_AUDITS);
  if (wrong.length === 0) return { check: "ledgers", verdict: "ok", finding: `${count} recomputed, all right.` };
  return {
    check: "ledgers",
    verdict: "wrong",
    finding: `Wrong: ${some(wrong)}. Run: tollgate account audit ${wrong[0]}`,
  };
}
