/** Video through the real process: what tenants get and pay, judged by the sandbox's log of what was executed. */
import { spawn } from "node:child_process";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { eventually } from "../../support/eventually.ts";
import { Operator, unique } from "../../support/operator.ts";
import { TollgateProcess } from "../../support/process.ts";
import type { Execution } from "../../support/sandbox.ts";
import type { Tenant } from "../../support/tenant.ts";

const MODEL = "service-video-gen-2.0";
/** Of tenants; the operator pays half. */
const PRICES_USD: Record<string, number> = {
  video_tokens_720p: 10,
  video_tokens_720p_reference: 6,
  video_tokens_1080p: 12,
  video_tokens_1080p_reference: 7,
  video_tokens_4k: 14,
  video_tokens_4k_reference: 8,
};
const pricesOf = (factor = 1) =>
  Object.fromEntries(
    Object.entries(PRICES_USD).map(([unit, usd]) => [unit, { cost_usd: usd / 2, price_usd: usd * factor }]),
  );

let tollgate: TollgateProcess;
let operator: Operator;

beforeAll(async () => {
  // The sandbox's own limit would stop the tests, not the tenants.
  tollgate = await TollgateProcess.start({ env: { SANDBOX_VIDEO_SUBMISSIONS: "1000" } });
  operator = new Operator(tollgate);
});
afterAll(() => tollgate.stop());
afterEach(() => operator.sandbox.clearFaults());

interface Said {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Record<string, unknown> & { id: string; billing: { charge_usd: number; billable_tokens: number } };
}
/** A tenant with 50 USD and a name of its own for the video model. */
async function videoTenant(fields: Record<string, unknown> = {}, upstreams = ["sandbox"]) {
  const tenant = await operator.tenant({ balance_usd: 50, ...fields });
  const model = unique("video");
  const targets = upstreams.map((upstream, priority) => ({ upstream, model: MODEL, priority }));
  await operator.call("PUT", `/aliases/${model}`, { account: tenant.account, targets });
  await operator.call("PUT", `/models/${model}`, { kind: "video", prices: pricesOf() });
  const say = async (response: Response): Promise<Said> => ({
    status: response.status,
    headers: response.headers,
    body: (await response.json()) as Said["body"],
  });
  const post = async (path: string, some: object, headers: Record<string, string> = {}) =>
    say(
      await tenant.fetch(path, {
        method: "POST",
        headers: { "content-type": "application/json", ...headers },
        body: JSON.stringify({ model, prompt: "A boat.", aspect_ratio: "16:9", ...some }),
      }),
    );
  return {
    tenant,
    model,
    quote: (some: object = {}) => post("/v1/video/quote", some),
    submit: (some: object = {}, headers?: Record<string, string>) => post("/v1/video/generations", some, headers),
    poll: async (id: string, as: Tenant = tenant) => say(await as.fetch(`/v1/video/jobs/${id}`)),
  };
}
const jobsMade = async (since: number): Promise<Execution[]> =>
  (await operator.sandbox.allExecutions()).filter(({ id, path }) => id > since && path.endsWith("/video/generations"));
const lastCall = async () => (await operator.sandbox.allCalls()).at(-1)?.id ?? 0;
const pollsOf = async (job: string) =>
  (await operator.sandbox.allCalls()).filter(({ path }) => path === `/v1/video/jobs/${job}`).length;
const usd = (tokens: number, unit: string) => Math.ceil(tokens * (PRICES_USD[unit] ?? 0) * 1000) / 1e9;
const charged = (tenant: Tenant) =>
  eventually(
    "a charge",
    async () => {
      const [charge] = await tenant.charges();
      return charge && { usd: 0 - charge.amount_usd };
    },
    { withinMs: 60_000, everyMs: 500 },
  );

test("a quote and the price list are in the tenant's prices; a job costs what it used, and says so", async () => {
  const { tenant, model, quote, submit, poll } = await videoTenant();
  const before = await lastCall();
  const list = await tenant.fetch(`/platform/models/${model}/pricing`);
  expect(await list.json()).toEqual({
    model,
    currency: "USD",
    rates: ["720p", "1080p", "4k"].flatMap((resolution) => [
      { resolution, reference_video: false, usd_per_1m_tokens: PRICES_USD[`video_tokens_${resolution}`] },
      { resolution, reference_video: true, usd_per_1m_tokens: PRICES_USD[`video_tokens_${resolution}_reference`] },
    ]),
  });
  const { body: quoted } = await quote();
  expect(quoted).toMatchObject({ pricing_tier: "720p", unit_price_per_1m_tokens: 10, currency: "USD" });
  const most = Number(quoted.estimated_cost_max_usd);

  const accepted = await submit();
  expect(accepted.status).toBe(202);
  expect(accepted.body).toEqual({ id: expect.stringMatching(/^vid_/), status: "processing", model: MODEL });
  const { id } = accepted.body;
  expect((await tenant.audit()).held_usd).toBeCloseTo(most, 9);
  expect((await poll(id)).body).toMatchObject({ id, status: expect.stringMatching(/queued|processing/) });

  await operator.sandbox.advance(10_000);
  const finished = await eventually("the job is completed", async () => {
    const said = await poll(id);
    return said.body.status === "completed" && said.body;
  });
  const [made] = await jobsMade(before);
  const { video_tokens_720p: used = 0 } = (made?.usage ?? {}) as Record<string, number>;
  expect(finished).toMatchObject({ width: 1280, height: 720, url: expect.stringMatching(/^http/) });
  expect(finished.billing).toEqual({
    charge_usd: usd(used, "video_tokens_720p"),
    pricing_tier: "720p",
    resolution: "720p",
    duration_seconds: 5,
    billable_tokens: used,
    usage_source: "engine",
  });
  const film = await fetch(String(finished.url));
  expect([film.status, film.headers.get("content-type")]).toEqual([200, "video/mp4"]);
  expect(await tenant.charges()).toMatchObject([{ amount_usd: 0 - usd(used, "video_tokens_720p") }]);
  expect(await tenant.audit()).toMatchObject({
    ok: true,
    held_usd: 0,
    open_holds: 0,
    operator_loss_usd: 0,
    overrun_usd: 0,
  });
});

describe("a tenant that submits and never comes back", () => {
  test("is charged within a minute of the job's end, at the prices of its submission", async () => {
    const { tenant, model, submit } = await videoTenant();
    const before = await lastCall();
    await submit({ resolution: "1080p", duration: 4, sandbox_job_seconds: 3 });
    await operator.call("PUT", `/models/${model}`, { kind: "video", prices: pricesOf(10) });
    const { usd: paid } = await charged(tenant);
    const [made] = await jobsMade(before);
    const { video_tokens_1080p: used = 0 } = (made?.usage ?? {}) as Record<string, number>;
    expect(paid).toBeCloseTo(usd(used, "video_tokens_1080p"), 9);
    expect(await tenant.audit()).toMatchObject({ ok: true, held_usd: 0 });
  });

  test("is charged after a kill -9 in between, without anybody asking, and once", async () => {
    const { tenant, submit } = await videoTenant();
    const { body } = await submit({ sandbox_job_seconds: 8 });
    await tollgate.kill9Workerd();
    const before = await pollsOf(body.id);
    await eventually("the alarm polls again", async () => (await pollsOf(body.id)) > before, {
      withinMs: 40_000,
      everyMs: 500,
    });
    await charged(tenant);
    await tollgate.kill9Workerd();
    expect(await tenant.charges()).toHaveLength(1);
    expect(await tenant.audit()).toMatchObject({ ok: true, held_usd: 0, operator_loss_usd: 0 });
  });

  test("is not charged for a job that fails", async () => {
    const { tenant, submit, poll } = await videoTenant();
    const { body } = await submit({ prompt: "[fail:content_filtered.output_video]", sandbox_job_seconds: 1 });
    await eventually("the hold is gone", async () => (await tenant.audit()).held_usd === 0, { withinMs: 30_000 });
    expect(await tenant.charges()).toEqual([]);
    const failed = await poll(body.id);
    expect(failed.status).toBe(200);
    expect(failed.body).toMatchObject({
      id: body.id,
      status: "failed",
      code: "content_filtered.output_video",
      retryable: false,
      error: expect.any(String),
    });
    expect(await tenant.audit()).toMatchObject({ ok: true, balance_usd: 50, operator_loss_usd: 0 });
  });
});

test("100 polls by two clients and the alarm: one charge, and the upstream is asked once in two seconds", async () => {
  const { tenant, submit, poll } = await videoTenant();
  const { key } = await operator.key(tenant.account);
  const second = Object.assign(Object.create(Object.getPrototypeOf(tenant)), tenant, { key }) as Tenant;
  const { body } = await submit({ sandbox_job_seconds: 2 });
  const started = Date.now();
  const statuses = await Promise.all(
    Array.from({ length: 100 }, async (_, index) => {
      await new Promise((resume) => setTimeout(resume, (index % 10) * 600));
      return (await poll(body.id, index % 2 ? tenant : second)).status;
    }),
  );
  expect(new Set(statuses)).toEqual(new Set([200]));
  expect(await pollsOf(body.id)).toBeLessThanOrEqual(1 + Math.ceil((Date.now() - started) / 2_000));
  await charged(tenant);
  expect(await tenant.charges()).toHaveLength(1);
  expect(await tenant.audit()).toMatchObject({ ok: true, held_usd: 0 });
});

test("somebody else's job answers as an unknown one does, and costs no upstream call", async () => {
  const { submit } = await videoTenant();
  const { body } = await submit();
  const other = await videoTenant();
  const before = await pollsOf(body.id);
  const theirs = await other.poll(body.id);
  const unknown = await other.poll("vid_unknown");
  expect([theirs.status, theirs.body]).toEqual([404, { error: expect.any(String), code: "not_found" }]);
  expect(theirs.body).toEqual(unknown.body);
  expect(await pollsOf(body.id)).toBe(before);
  expect(await pollsOf("vid_unknown")).toBe(0);
});

test("10 submissions in 60 s; failed ones do not count; quotes count as requests", async () => {
  const { tenant, submit, quote } = await videoTenant({ balance_usd: 100, rpm_limit: 13 });
  for (let time = 0; time < 3; time++) {
    const refused = await submit({ prompt: "[fail:content_filtered.input_text]" });
    expect([refused.status, refused.body.code]).toEqual([400, "content_filtered.input_text"]);
  }
  for (let time = 0; time < 10; time++) expect((await submit()).status).toBe(202);
  const eleventh = await submit();
  expect([eleventh.status, eleventh.body.code]).toEqual([429, "rate_limit_exceeded"]);
  expect(Number(eleventh.headers.get("retry-after"))).toBeGreaterThan(40);
  for (let time = 0; time < 3; time++) expect((await quote()).status).toBe(200);
  const fourth = await quote();
  expect([fourth.status, fourth.body.code]).toEqual([429, "rate_limit_exceeded"]);
  expect(await tenant.audit()).toMatchObject({ ok: true, open_holds: 10 });
});

test.each([
  ["capacity_exceeded", 429],
  ["generation_timeout", 504],
  ["internal_error", 502],
  ["model_unavailable", 503],
  ["reference_media_unreachable", 400],
  ["reference_media_too_long", 400],
])("%s of the service passes as %i; nothing is held, nothing charged", async (code, status) => {
  const { tenant, submit } = await videoTenant();
  const refused = await submit({ prompt: `[fail:${code}]` });
  expect([refused.status, refused.body]).toEqual([status, { error: expect.any(String), code }]);
  expect(await tenant.audit()).toMatchObject({ ok: true, held_usd: 0, balance_usd: 50, operator_loss_usd: 0 });
});

describe("an answer that is lost on its way", () => {
  test("leaves one job upstream: 504, never sent again, the operator's loss and not the tenant's", async () => {
    const { tenant, submit } = await videoTenant();
    const before = await lastCall();
    await operator.sandbox.faultAt({ path: "/v1/video/generations" }, { fault: "truncate", after_frames: 0, times: 1 });
    const key = { "idempotency-key": "lost" };
    const lost = await submit({}, key);
    expect(lost.status).toBe(504);
    expect(lost.headers.get("x-should-retry")).toBe("false");
    const again = await submit({}, key);
    expect([again.status, again.body.code]).toEqual([lost.status, lost.body.code]);
    expect(await jobsMade(before)).toHaveLength(1);
    const audit = await tenant.audit();
    expect(audit).toMatchObject({ ok: true, held_usd: 0, balance_usd: 50 });
    expect(audit.operator_loss_usd).toBeGreaterThan(0);
  });

  test("with a repeat by key, or by an SDK's own count, joins the first job", async () => {
    const { submit } = await videoTenant();
    const before = await lastCall();
    const first = await submit({ seed: 1 }, { "idempotency-key": "one" });
    const second = await submit({ seed: 1 }, { "idempotency-key": "one" });
    expect(second.body.id).toBe(first.body.id);
    expect((await submit({ seed: 2 }, { "idempotency-key": "one" })).status).toBe(409);

    const zero = await submit({ seed: 3 }, { "x-stainless-retry-count": "0" });
    const one = await submit({ seed: 3 }, { "x-stainless-retry-count": "1" });
    expect(one.body.id).toBe(zero.body.id);
    // Who does not say that he repeats himself wants another video.
    const anew = await submit({ seed: 3 });
    expect(anew.body.id).not.toBe(zero.body.id);
    expect(await jobsMade(before)).toHaveLength(3);
  });
});

test("a tenant that cannot pay the quote's upper end is refused with 402, and nothing is made", async () => {
  const { submit, quote } = await videoTenant({ balance_usd: 1 });
  const { body } = await quote({ duration: 15 });
  expect(Number(body.estimated_cost_max_usd)).toBeGreaterThan(1);
  const before = await lastCall();
  const refused = await submit({ duration: 15 });
  expect([refused.status, refused.body.code]).toEqual([402, "insufficient_quota"]);
  expect(await jobsMade(before)).toEqual([]);
});

test("the example makes a video, and says what it will cost and did cost", async () => {
  const { tenant, model } = await videoTenant();
  const child = spawn(process.execPath, [join(import.meta.dirname, "../../../examples/video.ts")], {
    env: { ...process.env, TOLLGATE_URL: operator.url, TOLLGATE_KEY: tenant.key, VIDEO_MODEL: model },
  });
  let output = "";
  child.stdout.on("data", (chunk) => (output += chunk));
  child.stderr.on("data", (chunk) => (output += chunk));
  const advancing = setInterval(() => void operator.sandbox.advance(10_000), 3_000);
  const code = await new Promise((resolve) => child.once("close", resolve));
  clearInterval(advancing);
  expect(output).toMatch(/It will cost [\d.]+ to [\d.]+ USD/);
  expect(output).toMatch(/\[#{30}\] completed/);
  expect(output).toMatch(/It cost [\d.]+ USD for \d+ tokens/);
  expect(code).toBe(0);
});
