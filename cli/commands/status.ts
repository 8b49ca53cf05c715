/** What runs where, and how it does. */

import { send } from "../../client/http.ts";
import type { AnswerOf } from "../../client/operator.ts";
import { version } from "../../package.json";
import type { Command, Work } from "../command.ts";
import { Failure } from "../failure.ts";
import { failureOf, type Gateway } from "../gateway.ts";
import { whereIs } from "../local/settings.ts";
import { nanoOf, shownUsd } from "../usd.ts";
import { collected, ifAllowed } from "./collected.ts";

interface Health {
  readonly version: string;
  readonly commit: string | null;
}

/** Needs no token. */
export async function healthOf({ io, given }: Work): Promise<{ url: string; health: Health; date: string | null }> {
  const { url, patienceMs } = whereIs(io, given);
  try {
    const response = await send({ url, token: "none", patienceMs }, "GET", "/healthz");
    const text = await response.text();
    const health: unknown = response.ok ? JSON.parse(text) : undefined;
    if (isHealth(health)) return { url, health, date: response.headers.get("date") };
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw failureOf(error, url);
  }
  throw new Failure("fault", `${url} answers, but not as Tollgate does. Check the address.`);
}

const isHealth = (value: unknown): value is Health =>
  typeof value === "object" && value !== null && "version" in value && typeof value.version === "string";

const versionCommand: Command = {
  words: "version",
  about: "The version of this command line and of the gateway",
  examples: ["version"],
  async run(work) {
    const { url, health } = await healthOf(work);
    await work.print.thing(
      [
        ["command line", version],
        ["gateway", health.version],
        ["commit", health.commit],
        ["url", url],
      ],
      { cli: version, gateway: health.version, commit: health.commit, url },
    );
  },
};

type UpstreamHealth = AnswerOf<"getUpstreamHealth">;

async function upstreamHealths(gateway: Gateway, minutes = 5): Promise<UpstreamHealth[] | undefined> {
  const upstreams = await ifAllowed(collected(gateway.rows("listUpstreams", {})));
  if (!upstreams) return undefined;
  return Promise.all(upstreams.map(({ id }) => gateway.run("getUpstreamHealth", { upstream: id, query: { minutes } })));
}

/** How many of the accounts that run dry next are shown. */
const MOST_SHOWN = 10;

const statusCommand: Command = {
  words: "status",
  about: "The last day at a glance: money, calls, upstreams, who runs dry next",
  examples: ["status", "status --json"],
  async run(work) {
    const { health } = await healthOf(work);
    const gateway = work.gateway();
    const [report, upstreams, accounts] = await Promise.all([
      gateway.run("reportUsage", { query: { from: "-24h" } }),
      upstreamHealths(gateway),
      collected(gateway.rows("listAccounts", {}), 1_000),
    ]);
    const [day] = report.data;
    const prepaid = accounts
      .filter(({ bills_monthly, blocked }) => !bills_monthly && !blocked)
      .map((account) => ({ ...account, free: nanoOf(account.balance_usd) - nanoOf(account.held_usd) }))
      .sort((one, other) => (one.free < other.free ? -1 : one.free > other.free ? 1 : 0))
      .slice(0, MOST_SHOWN);
    const { print } = work;
    const json = {
      url: gateway.url,
      version: health.version,
      commit: health.commit,
      last_24h: day ?? null,
      upstreams:
        upstreams?.map(({ upstream, state, targets }) => ({ upstream, state, targets: targets.length })) ?? null,
      accounts: accounts.length,
      lowest_balances: prepaid.map(({ id, name, balance_usd, held_usd }) => ({ id, name, balance_usd, held_usd })),
    };
    if (print.form === "json") return print.json(json);
    await print.thing(
      [
        ["gateway", `${gateway.url}, ${health.version}${health.commit ? ` (${health.commit.slice(0, 12)})` : ""}`],
        ["calls, 24 h", day?.calls ?? 0],
        ["errors", day?.errors ?? 0],
        ["revenue USD", { decimal: shownUsd(day?.price_usd ?? 0) }],
        ["cost USD", { decimal: shownUsd(day?.cost_usd ?? 0) }],
        ["margin USD", { decimal: shownUsd(day?.margin_usd ?? 0) }],
        ["loss USD", { decimal: shownUsd(day?.loss_usd ?? 0) }],
        ["accounts", accounts.length],
        [
          "upstreams",
          upstreams ? upstreams.map(({ upstream, state }) => `${upstream} ${state}`).join(", ") : "not for this role",
        ],
      ],
      json,
    );
    if (print.form !== "table" || prepaid.length === 0) return;
    await print.say("\nLowest prepaid balances");
    await print.rows(
      [
        ["account", (row) => row.id],
        ["name", (row) => row.name],
        ["balance_usd", (row) => ({ decimal: shownUsd(row.balance_usd) })],
        ["held_usd", (row) => ({ decimal: shownUsd(row.held_usd) })],
      ],
      prepaid,
    );
  },
};

export const STATUS_COMMANDS: readonly Command[] = [statusCommand, versionCommand];
