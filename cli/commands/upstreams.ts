/** `tollgate upstream ...`: how upstreams do, and taking one out of the traffic. */
import type { Schemas } from "../../client/operator.ts";
import { CHANGING, type Command, type Work } from "../command.ts";
import { confirmed } from "../confirm.ts";
import { fault, refused } from "../failure.ts";
import { when, yes } from "../show/cells.ts";
import { countOf } from "./calls.ts";
import { collected } from "./collected.ts";

const upstream = { name: "upstream" } as const;
const MINUTES = { name: "minutes", value: "N", about: "how far to look back, at most 60 (5)" } as const;

const list: Command = {
  words: "upstream list",
  about: "Upstreams and how they do",
  options: [MINUTES],
  examples: ["upstream list --minutes 60"],
  async run({ given, gateway, print }) {
    const query = { minutes: countOf(given, "minutes", 5, 60) };
    const upstreams = await collected(gateway().rows("listUpstreams", {}));
    const healths = await Promise.all(
      upstreams.map(({ id }) => gateway().run("getUpstreamHealth", { upstream: id, query })),
    );
    const rows = upstreams.map((one, at) => ({ ...one, health: healths[at] }));
    await print.rows(
      [
        ["id", (row) => row.id],
        ["state", (row) => row.health?.state],
        ["region", (row) => row.region],
        ["base_url", (row) => row.base_url],
        ["targets", (row) => row.health?.targets.length],
        ["tries", (row) => row.health?.targets.reduce((sum, { tries }) => sum + tries, 0)],
        ["last_error", (row) => row.health?.errors[0]?.result],
        ["at", (row) => when(row.health?.errors[0]?.at)],
      ],
      rows,
      { empty: "No upstreams. 'tollgate apply' makes them from a file." },
    );
  },
};

const health: Command = {
  words: "upstream health",
  args: [upstream],
  about: "An upstream's targets, times and last errors",
  options: [MINUTES],
  examples: ["upstream health eu --minutes 60"],
  async run({ arg, given, gateway, print }) {
    const query = { minutes: countOf(given, "minutes", 5, 60) };
    const found = await gateway().run("getUpstreamHealth", { upstream: arg("upstream"), query });
    await print.rows(
      [
        ["model", (row) => row.model],
        ["state", (row) => row.state],
        ["tries", (row) => row.tries],
        [
          "results",
          (row) =>
            Object.entries(row.results)
              .map(([name, count]) => `${name} ${count}`)
              .join(", "),
        ],
        ["first_byte_p50", (row) => row.first_byte_ms.p50],
        ["p95", (row) => row.first_byte_ms.p95],
        ["p99", (row) => row.first_byte_ms.p99],
        ["last_answered", (row) => when(row.last_answered_at)],
        ["last_failed", (row) => when(row.last_failed_at)],
      ],
      found.targets,
      { json: found, empty: `${found.upstream} is ${found.state}: nobody called in this time.` },
    );
    if (print.form !== "table" || found.errors.length === 0) return;
    await print.say("\nLast errors");
    await print.rows(
      [
        ["at", (row) => when(row.at)],
        ["call", (row) => row.call],
        ["model", (row) => row.model],
        ["result", (row) => row.result],
        ["ms", (row) => row.ms],
      ],
      found.errors,
    );
  },
};

const check: Command = {
  words: "upstream check",
  args: [upstream],
  about: "Call an upstream: does it answer, does it take its key; ends with 1 where not",
  examples: ["upstream check eu"],
  async run({ arg, gateway, print }) {
    const found = await gateway().run("checkUpstream", { upstream: arg("upstream"), body: {} });
    await print.thing(
      [
        ["ok", yes(found.ok)],
        ["status", found.status],
        ["latency ms", found.latency_ms],
        ["model", found.model],
        ["problem", found.problem],
      ],
      found,
    );
    if (!found.ok) throw fault(found.problem ?? "The upstream failed its check.");
  },
};

type Alias = Schemas["Alias"];

/** The aliases whose targets there differ from what is wanted. */
const affected = (aliases: readonly Alias[], id: string, drained: boolean): Alias[] =>
  aliases.filter(({ targets }) => targets.some((target) => target.upstream === id && target.drain !== drained));

const draining = (drained: boolean): Command => ({
  words: drained ? "upstream drain" : "upstream undrain",
  args: [upstream],
  about: drained ? "Send no new calls to an upstream: drain it in every alias" : "Let new calls go there again",
  more: drained
    ? "Follow-ups of earlier calls still go there. --wait waits until nothing is in flight. Models that name the upstream themselves are listed: move those with 'tollgate apply'."
    : "",
  options: [...(drained ? [{ name: "wait", about: "until nothing is in flight there" }] : []), ...CHANGING],
  examples: drained ? ["upstream drain eu --dry-run", "upstream drain eu --yes --wait"] : ["upstream undrain eu --yes"],
  async run(work: Work) {
    const { arg, given, gateway, print } = work;
    const id = arg("upstream");
    await gateway().run("getUpstream", { upstream: id });
    const [aliases, models] = [
      await collected(gateway().rows("listAliases", {})),
      await collected(gateway().rows("listModels", {})),
    ];
    const changing = affected(aliases, id, drained);
    const direct = models.filter((model) => model.upstream === id).map(({ model }) => model);
    const stuck = changing.filter(
      ({ targets }) => drained && targets.every((target) => target.upstream === id || target.drain),
    );
    await print.rows(
      [
        ["alias", (alias) => alias.alias],
        ["account", (alias) => alias.account],
        ["left", (alias) => leftOf(alias, id, drained)],
      ],
      changing,
      {
        json: {
          upstream: id,
          drain: drained,
          aliases: changing.map(({ alias, account }) => ({ alias, account })),
          models: direct,
        },
        empty: `No alias has to change.`,
      },
    );
    if (drained && direct.length > 0) await print.say(`Models that run there by themselves: ${direct.join(", ")}`);
    if (stuck.length > 0) {
      throw refused(
        `${stuck.map(({ alias }) => alias).join(", ")} would have no target left. Give them another one first.`,
      );
    }
    if (changing.length > 0) {
      if (!(await confirmed(work, `${drained ? "Drain" : "Undrain"} ${id} in ${changing.length} aliases?`))) return;
      for (const alias of changing) await setDrain(work, alias, id, drained);
      await print.say("Done. The gateway's isolates follow within seconds.");
    }
    if (given.flag("wait") && !given.flag("dry-run")) await waitForNothing(work, id);
  },
});

const leftOf = ({ targets }: Alias, id: string, drained: boolean): string =>
  targets
    .filter((target) => (target.upstream === id ? !drained : !target.drain))
    .map((target) => target.upstream)
    .join(", ");

async function setDrain(
  { gateway }: Work,
  { alias, account, targets }: Alias,
  id: string,
  drain: boolean,
): Promise<void> {
  const changed = targets.map((target) => (target.upstream === id ? { ...target, drain } : { ...target }));
  await gateway().run("updateAlias", {
    alias,
    query: { account: account ?? undefined },
    body: { targets: changed, allow_loss: true },
  });
}

const EVERY_MS = 3_000;

async function waitForNothing({ gateway, print, io }: Work, id: string): Promise<void> {
  for (;;) {
    const { in_flight: there } = await gateway().run("getUpstreamHealth", {
      upstream: id,
      query: { in_flight: "true" },
    });
    const sum = there ? there.calls + there.young_calls + there.jobs : 0;
    if (there?.complete && sum === 0) return print.say("Nothing is in flight there.");
    await print.say(`In flight: ${there?.calls} calls, ${there?.young_calls} young calls, ${there?.jobs} jobs`);
    await io.pause(EVERY_MS);
  }
}

export const UPSTREAM_COMMANDS: readonly Command[] = [list, health, check, draining(true), draining(false)];
