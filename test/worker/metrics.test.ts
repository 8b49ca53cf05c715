import { createExecutionContext } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
// @ts-expect-error: the package has no types
import parse from "parse-prometheus-text-format";
import { beforeEach, expect, it } from "vitest";
import worker from "../../src/index.ts";
import { done } from "../support/worker/operator.ts";
import { deliver, emptyUsage, event, message, report, START } from "../support/worker/usage-support.ts";

const TOKEN = "metrics-token-0123456789abcdef";

interface Family {
  readonly name: string;
  readonly type: string;
  readonly metrics: readonly {
    readonly value?: string;
    readonly labels?: Record<string, string>;
    readonly buckets?: Record<string, string>;
    readonly count?: string;
    readonly sum?: string;
  }[];
}

async function scrape(token = TOKEN, values: object = { METRICS_TOKEN: TOKEN }, query = "") {
  const headers = { authorization: `Bearer ${token}` };
  const request = new Request(`http://gateway.test/metrics${query}`, { headers });
  const response = await (worker as unknown as { fetch(...all: unknown[]): Promise<Response> }).fetch(
    request,
    { ...env, ...values },
    createExecutionContext(),
  );
  return { status: response.status, text: await response.text() };
}
async function families(query = ""): Promise<Map<string, Family>> {
  const { text } = await scrape(TOKEN, { METRICS_TOKEN: TOKEN }, query);
  return new Map((parse(text) as Family[]).map((family) => [family.name.replace("tollgate_", ""), family]));
}
const total = (all: Map<string, Family>, name: string, labels: Record<string, string> = {}): number =>
  (all.get(name)?.metrics ?? [])
    .filter((metric) => Object.entries(labels).every(([label, value]) => metric.labels?.[label] === value))
    .reduce((sum, { value }) => sum + Number(value), 0);

beforeEach(async () => {
  await emptyUsage();
  await env.BOOKS.batch([
    env.BOOKS.prepare("delete from metric_counters"),
    env.BOOKS.prepare("delete from histograms"),
  ]);
});

it("is not there without a token that is long enough, and the token opens nothing else", async () => {
  expect((await exports.default.fetch("http://gateway.test/metrics")).status).toBe(404);
  expect((await scrape("short", { METRICS_TOKEN: "short" })).status).toBe(404);
  expect((await scrape("wrong")).status).toBe(401);
  expect((await scrape(String(env.ADMIN_TOKEN))).status).toBe(401);
  const headers = { authorization: `Bearer ${TOKEN}` };
  for (const path of ["/admin/accounts", "/account", "/v1/models"]) {
    expect((await exports.default.fetch(`http://gateway.test${path}`, { headers })).status).toBe(401);
  }
});

it("sums equal the reports, whatever comes twice, late or under a name that is none", async () => {
  await done("PUT", "/upstreams/main", { base_url: "https://main.test", api_key: "k" });
  const prices = { input_tokens: { cost_usd: 1 }, output_tokens: { cost_usd: 1 } };
  await done("PUT", "/models/llama", { kind: "chat", prices, max_output_tokens: 10, upstream: "main" });
  const detail = {
    stream: false,
    heldNanoUsd: 1,
    prices: {},
    costs: null,
    entry: null,
    tries: [
      { upstream: "main", model: "llama", result: "status_503", ms: 70 },
      { upstream: "spare", model: "llama", result: "answered", ms: 700 },
    ],
  };
  const expired = event({ outcome: "expired", status: 0, lossNanoUsd: 500, firstByteMs: null });
  const events = [
    event({ detail }),
    event({ detail, status: 429, outcome: "failed", upstream: "spare", latencyMs: 40_000 }),
    event({ model: 'made "up\\\n', usage: { input_tokens: 7 } }),
    expired,
    event({
      eventId: `${expired.eventId}.late` as never,
      late: true,
      priceNanoUsd: -10,
      costNanoUsd: -5,
      lossNanoUsd: -500,
      usage: { input_tokens: -3 },
      latencyMs: 0,
    }),
  ];
  await deliver([message(...events), message(...events.slice(0, 2))]);
  await deliver([message(...events)]);
  const [sums] = await report(`group_by=&from=${START}`);
  const all = await families();
  const net = (name: string, unit = "") =>
    total(all, `${name}${unit}_total`) - total(all, `${name}_corrected${unit}_total`);
  expect(total(all, "calls_total")).toBe(sums.calls);
  expect(net("revenue", "_usd")).toBeCloseTo(sums.price_usd, 12);
  expect(net("cost", "_usd")).toBeCloseTo(sums.cost_usd, 12);
  expect(net("loss", "_usd")).toBeCloseTo(0, 12);
  expect(net("tokens")).toBe(sums.input_tokens + sums.output_tokens);
  const models = (all.get("calls_total")?.metrics ?? []).map(({ labels }) => labels?.model);
  expect(new Set(models)).toEqual(new Set(["llama", "other"]));
  expect(total(all, "calls_total", { status_class: "4xx", outcome: "failed" })).toBe(1);
  expect(total(all, "upstream_tries_total", { upstream: "main", result: "status_503" })).toBe(2);
  expect(all.get("call_duration_seconds")?.type).toBe("HISTOGRAM");
  // The parser puts the series of all labels into one.
  const { text } = await scrape();
  const ofSpare = text.split("\n").filter((line) => /^tollgate_call_duration_seconds.*upstream="spare"/.test(line));
  const name = "tollgate_call_duration_seconds";
  expect(ofSpare).toContain(`${name}_bucket{upstream="spare",le="30"} 0`);
  expect(ofSpare).toContain(`${name}_bucket{upstream="spare",le="120"} 1`);
  expect(ofSpare).toContain(`${name}_bucket{upstream="spare",le="+Inf"} 1`);
  expect(ofSpare.slice(-2)).toEqual([`${name}_sum{upstream="spare"} 40`, `${name}_count{upstream="spare"} 1`]);
});

it("shows what accounts last said of themselves, summed", async () => {
  const gauges = { open_holds: 3, waiting_events: 2, account_bytes: 1_000 };
  const of = (account: number, some: object) => ({ ...message(event()), account, gauges: { ...gauges, ...some } });
  await deliver([of(1, { open_holds: 9 }), of(2, {})]);
  await deliver([of(1, {})]);
  const all = await families();
  expect(total(all, "holds_open")).toBe(6);
  expect(total(all, "outbox_events")).toBe(4);
  expect(total(all, "storage_bytes", { store: "accounts" })).toBe(2_000);
  expect(total(all, "storage_bytes", { store: "d1" })).toBeGreaterThan(0);
});

it("names accounts only where they are asked for, the hundred that were charged most, and sums as the reports do", async () => {
  const charged = (account: string, priceNanoUsd: number, late = false) =>
    event({ account: account as never, priceNanoUsd, ...(late && { late, latencyMs: 0 }) });
  const events = Array.from({ length: 120 }, (_, index) => charged(`a${index}"\n`, 1_000 + index));
  await deliver([message(...events, charged('a119"\n', -19, true))]);
  expect([...(await families()).keys()].filter((name) => name.startsWith("account"))).toEqual([]);
  const all = await families("?accounts=true");
  const of = (name: string) =>
    new Map((all.get(name)?.metrics ?? []).map(({ labels, value }) => [labels?.account, Number(value)]));
  const revenue = of("account_revenue_usd_total");
  expect(revenue.size).toBe(100);
  expect(revenue.has('a19"\n')).toBe(false);
  expect(of("account_calls_total").size).toBe(100);
  const [row] = (await report(`group_by=account&from=${START}&order_by=price_usd&limit=1`)) as [Record<string, number>];
  const corrected = of("account_revenue_corrected_usd_total").get('a119"\n') ?? 0;
  expect((revenue.get('a119"\n') ?? 0) - corrected).toBeCloseTo(1_100e-9, 15);
  expect(row?.price_usd).toBeCloseTo(1_118e-9, 15);
});
