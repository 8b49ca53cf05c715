/** Clients that repeat on their own do not become a storm upstream; a region that falls and comes back is noticed both ways. */
import OpenAI from "openai";
import { afterAll, expect, test } from "vitest";
import { sleep } from "../support/eventually.ts";
import { Operator } from "../support/operator.ts";
import { TollgateProcess } from "../support/process.ts";

const tollgate = await TollgateProcess.start();
const operator = new Operator(tollgate);
afterAll(() => tollgate.stop());

const HI = [{ role: "user" as const, content: "Hi" }];
/** Upstream calls per client call, and those that a target gets in any 10 s however few calls there are. */
const RATIO = 1.2;
const FLOOR = 3;

test.each([1, 2])(
  "%i targets down, 100 SDK clients repeating: upstream calls stay within the budget",
  async (count) => {
    const tenant = await operator.tenant({ rpm_limit: null });
    const models = await Promise.all(Array.from({ length: count }, () => operator.instance(tenant)));
    for (const model of models) await operator.sandbox.fault(model, { fault: "status", status: 503 });
    const alias = await operator.alias(
      tenant,
      models.map((model) => ({ upstream: "sandbox", model })),
    );
    let sent = 0;
    // Clients that do not hear how long they are to wait come back sooner.
    const impatient: typeof fetch = async (...asked) => {
      sent += 1;
      const response = await fetch(...asked);
      const headers = new Headers(response.headers);
      headers.delete("retry-after");
      return new Response(response.body, { status: response.status, headers });
    };
    const startedAtMs = Date.now();
    const outcomes = await Promise.all(
      Array.from({ length: 100 }, () =>
        new OpenAI({
          baseURL: `${operator.url}/v1`,
          apiKey: tenant.key,
          maxRetries: 3,
          fetch: impatient,
        }).chat.completions
          .create({ model: alias, messages: HI })
          .then(() => "served")
          .catch((error: InstanceType<typeof OpenAI.APIError>) => error.status),
      ),
    );
    const windows = Math.ceil((Date.now() - startedAtMs) / 10_000);
    expect(new Set(outcomes)).toEqual(new Set([503]));
    expect(sent).toBe(400);
    for (const model of models) {
      const calls = (await operator.sandbox.calls(model)).length;
      expect(calls).toBeLessThanOrEqual(RATIO * sent + FLOOR * windows);
      // The breaker does far better than the bound: the first calls find out, then one probes.
      expect(calls).toBeLessThan(sent);
    }
    expect(await operator.sandbox.executions(...models)).toEqual([]);
    expect(await tenant.audit()).toMatchObject({ ok: true, open_holds: 0, balance_usd: 1 });
  },
);

test("one region down under load: no call fails but a stream that had begun; it is used again after its return", async () => {
  const tenant = await operator.tenant({ balance_usd: 10 });
  const regions = ["us-east-1", "eu-west-1"];
  const upstreams: string[] = [];
  for (const region of regions) {
    upstreams.push(await operator.upstream(`${tollgate.sandboxUrl}/regions/${region}`, { region }));
  }
  const model = await operator.instance(tenant, { upstreams });
  const answers: { at: number; ms: number; status: number | "broken"; region: string | null; stream: boolean }[] = [];
  let over = false;
  const load = Array.from({ length: 8 }, async (_, client) => {
    for (let call = 0; !over; call++) {
      const stream = (client + call) % 3 === 0;
      const at = Date.now();
      const answer = await tenant.chat({ model, max_tokens: 10, stream }).catch(() => null);
      const whole = answer && (!stream || String(answer.body).includes("[DONE]") || answer.status !== 200);
      const region = answer?.headers.get("x-service-region") ?? null;
      answers.push({ at, ms: Date.now() - at, status: whole ? answer.status : "broken", region, stream });
      await sleep(40);
    }
  });
  const from = (at: number, to = Number.POSITIVE_INFINITY) => answers.filter((one) => one.at >= at && one.at < to);
  const p95 = (of: typeof answers) => of.map(({ ms }) => ms).sort((a, b) => a - b)[Math.floor(of.length * 0.95)] ?? 0;
  const share = (of: typeof answers) => of.filter(({ region }) => region === "us-east-1").length / of.length;

  const startedAt = Date.now();
  await sleep(1_500);
  const downAt = Date.now();
  await operator.sandbox.setRegion("us-east-1", false);
  await sleep(2_500);
  const backAt = Date.now();
  await operator.sandbox.setRegion("us-east-1", true);
  await sleep(12_000);
  over = true;
  await Promise.all(load);

  const failed = answers.filter(({ status, stream }) => status !== 200 && !(stream && status === "broken"));
  expect(failed).toEqual([]);
  const [before, down, after] = [from(startedAt, downAt), from(downAt + 500, backAt), from(backAt + 10_500)];
  expect(share(before)).toBeGreaterThan(0.3);
  expect(share(down)).toBeLessThan(0.05);
  expect(share(after)).toBeGreaterThan(0.3);
  expect(p95(after)).toBeLessThan(3 * p95(before) + 100);
  expect(await tenant.audit()).toMatchObject({ ok: true, open_holds: 0, overrun_usd: 0 });
});
