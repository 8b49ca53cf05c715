/**
 * The text of `/metrics`, and the files in ops/ that read it: no name and no label there that `/metrics` does not give.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
// @ts-expect-error: the package has no types
import parse from "parse-prometheus-text-format";
import { describe, expect, it } from "vitest";
import { parse as parseYaml } from "yaml";
import { BUCKETS } from "../../src/core/histogram.ts";
import { type Ever, metricsText } from "../../src/core/metrics.ts";

const OPS = join(import.meta.dirname, "../../ops");

const ever = (measure: Ever["measure"], some: Partial<Ever> = {}): Ever => ({
  measure,
  upstream: "main",
  model: "llama",
  result: measure === "try" ? "answered" : "",
  histogram: Array.from({ length: BUCKETS }, () => 1),
  sumMs: 1_000,
  ...some,
});
const counter = (name: string, ...labels: string[]) => ({ name, labels, value: 3 });
const TEXT = metricsText({
  counters: [
    counter("calls", "chat.completions", "llama", "2xx", "completed"),
    counter("refusals", "rate_limit", "key"),
    counter("tokens", "llama", "input"),
    counter("tokens_corrected", "llama", "input"),
    counter("revenue_of", "acme"),
  ],
  ever: [ever("latency"), ever("first_byte"), ever("try")],
  gauges: { open_holds: 1, waiting_events: 2, account_bytes: 3 },
  booksBytes: 4,
});

/** The labels that each name has. */
const GIVEN = new Map<string, Set<string>>();
for (const [, name = "", labels = ""] of TEXT.matchAll(/^(tollgate_\w+)(?:\{(.*)\})? \S+$/gm)) {
  GIVEN.set(name, new Set([...labels.matchAll(/(\w+)="/g)].map(([, label = ""]) => label)));
}
/** What Prometheus adds. */
const ITS_OWN = new Map([["up", new Set(["job"])]]);

/** The names that an expression has, each with the labels that are asked of it. */
function namesIn(expression: string): [name: string, labels: string[]][] {
  const grouped = [...expression.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, labels = ""]) => labels.split(/, */));
  return [...expression.matchAll(/\b(tollgate_\w+|up\b)(?:\{([^}]*)\})?/g)].map(([, name = "", matchers = ""]) => [
    name,
    [...[...matchers.matchAll(/(\w+) *(?:=~|!~|!=|=)/g)].map(([, label = ""]) => label), ...grouped],
  ]);
}

function expectGiven(expression: string): void {
  const names = namesIn(expression);
  expect(names, expression).not.toEqual([]);
  for (const [name, labels] of names) {
    const given = GIVEN.get(name) ?? ITS_OWN.get(name);
    expect(given, `${name} in ${expression}`).toBeDefined();
    expect(
      labels.filter((label) => !given?.has(label)),
      expression,
    ).toEqual([]);
  }
}

describe("the files in ops/", () => {
  it("are a dashboard and rules, all of which this test reads", () => {
    expect(readdirSync(OPS).sort()).toEqual(["alerts.yml", "dashboard.json"]);
  });

  it("the dashboard shows nothing that /metrics does not give, each panel once", () => {
    const { panels } = JSON.parse(readFileSync(join(OPS, "dashboard.json"), "utf8"));
    const expressions = panels.flatMap((panel: { targets: { expr: string }[] }) =>
      panel.targets.map(({ expr }) => expr),
    );
    expect(expressions.length).toBeGreaterThan(5);
    for (const expression of expressions) expectGiven(expression);
    expect(new Set(panels.map(({ id }: { id: number }) => id)).size).toBe(panels.length);
  });

  it("the rules ask for nothing that /metrics does not give, and say what is wrong", () => {
    const { groups } = parseYaml(readFileSync(join(OPS, "alerts.yml"), "utf8"));
    const rules = groups.flatMap((group: { rules: unknown[] }) => group.rules);
    expect(rules.length).toBeGreaterThan(3);
    for (const { alert, expr, labels, annotations } of rules) {
      expectGiven(expr);
      expect([alert, labels.severity, annotations.summary]).toEqual([
        expect.stringMatching(/^Tollgate\w+$/),
        expect.stringMatching(/^(page|ticket)$/),
        expect.any(String),
      ]);
    }
  });
});

describe("the text of /metrics", () => {
  it("has each name once with its help and type, and a parser reads all of it", () => {
    const names = [...TEXT.matchAll(/^# TYPE (\w+) /gm)].map(([, name]) => name);
    expect(new Set(names).size).toBe(names.length);
    expect((parse(TEXT) as { name: string }[]).map(({ name }) => name).sort()).toEqual(names.sort());
  });

  it.each(['a"b', "a\\", 'a\\"', "a\nb", 'x"} 1\ntollgate_revenue_usd_total 9', "a\rb", "\u2028", '{le="1"}'])(
    "a name cannot leave its label: %j",
    (model) => {
      const text = metricsText({
        counters: [{ name: "calls", labels: ["chat", model, "2xx", "completed"], value: 7 }],
        ever: [ever("try", { model })],
        gauges: {},
        booksBytes: 0,
      });
      const families = parse(text) as { name: string; metrics: { value: string; labels?: Record<string, string> }[] }[];
      const calls = families.find(({ name }) => name === "tollgate_calls_total");
      expect(calls?.metrics).toMatchObject([{ value: "7", labels: { model } }]);
      expect(families.find(({ name }) => name === "tollgate_revenue_usd_total")?.metrics).toMatchObject([
        { value: "0" },
      ]);
      expect(text.split("\n").filter((line) => line.startsWith("tollgate_calls_total"))).toHaveLength(1);
    },
  );
});
