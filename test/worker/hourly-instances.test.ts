/**
 * Inference instances by the hour: the account pays GPU-hours a day ahead, calls cost nothing, without money none is
 * served.
 */
import { evictDurableObject, runDurableObjectAlarm } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterAll, afterEach, beforeEach, expect, it, vi } from "vitest";
import { type AccountNumber, asId, type CallId } from "../../src/core/ids.ts";
import { Account } from "../../src/platform/account/object.ts";
import { accountObject } from "../../src/platform/account/stub.ts";
import { currentModel } from "../../src/platform/d1/models.ts";
import { readSecrets } from "../../src/platform/secrets.ts";
import { ComputeService, Renter, serveCompute } from "../support/worker/compute-service.ts";
import { IN_FULL } from "../support/worker/in-full.ts";
import { call, done, type Json, refusal, settled } from "../support/worker/operator.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const HOURLY = { gpu_type: "H100", gpu_count: 2, replicas: 2 };
/** USD of one hour of those four GPUs. */
const PRICE = 4 * 0.25;
const COST = 4 * 0.1;
let nextInstance = 7_000;
/** Long ago, and later with each test: what other files left running waits for no time to come. */
let startMs = Date.now() - 100 * DAY;

afterAll(settled);
beforeEach(async () => {
  startMs += 5 * DAY;
  vi.useFakeTimers({ now: startMs, toFake: ["Date"] });
  serveCompute();
  const prices = { gpu_hours: { cost_usd: 0.1, price_usd: 0.25 } };
  await done("PUT", "/models/gpu%2FH100", { kind: "gpu", prices });
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

const chat = {
  model: "llama",
  choices: [{ message: { role: "assistant", content: "Hi" } }],
  usage: {
    prompt_tokens: 5,
    completion_tokens: 7,
    total_tokens: 12,
  },
};

class Scene {
  readonly service: ComputeService;
  readonly renter: Renter;
  readonly id = ++nextInstance;

  private constructor(service: ComputeService, renter: Renter) {
    this.service = service;
    this.renter = renter;
  }

  static async make(balance_usd: number): Promise<Scene> {
    const service = await ComputeService.make();
    service.before = (asked) => asked === "POST /v1/chat/completions" && Response.json(chat);
    return new Scene(service, await Renter.make({ balance_usd }));
  }

  put(fields: Json = {}) {
    const whole = { account: this.renter.id, name: "llama", upstreams: [this.service.id], hourly: HOURLY, ...fields };
    return call("PUT", `/instances/${this.id}`, whole);
  }

  chat(model = `llama:${this.id}`) {
    const body = { model, messages: [{ role: "user", content: "Hi" }] };
    return this.renter.ask("POST", "/v1/chat/completions", body);
  }

  async later(ms: number): Promise<void> {
    vi.setSystemTime(Date.now() + ms);
    await runDurableObjectAlarm(env.ACCOUNTS.getByName(String(this.renter.number)));
  }

  audit = (): Promise<Json> => done("GET", `/audit/${this.renter.id}`);
  ledger = async (): Promise<Json[]> => (await done("GET", `/accounts/${this.renter.id}/ledger`)).data;
  charges = async (): Promise<number[]> =>
    (await this.ledger())
      .filter(({ kind }) => kind === "charge")
      .map(({ amount_usd }) => 0 - amount_usd)
      .reverse();
  rentals = async (): Promise<Json[]> => (await done("GET", `/accounts/${this.renter.id}/compute`)).data;
}

it("PATCH changes what it names; another `hourly`, or its account, is 409 and starts no rental", async () => {
  const scene = await Scene.make(1_000);
  const path = `/instances/${scene.id}`;
  expect(await call("PATCH", path, { name: "x" })).toMatchObject(refusal(404, "not_found", "instance"));
  await scene.put();
  const whole = await done("GET", path);
  expect(await done("PATCH", path, {})).toEqual(whole);
  expect(await done("PATCH", path, { name: "renamed" })).toEqual({
    ...whole,
    name: "renamed",
    model: `renamed:${scene.id}`,
  });
  expect(await call("PATCH", path, { hourly: { ...HOURLY, replicas: 3 } })).toMatchObject(
    refusal(409, "instance_hourly", "hourly"),
  );
  await done("POST", "/accounts", { id: `other-${scene.id}`, name: "Other" });
  expect(await call("PATCH", path, { account: `other-${scene.id}` })).toMatchObject(
    refusal(409, "instance_hourly", "hourly"),
  );
  expect(await call("PATCH", path, { kind: "custom" })).toMatchObject(
    refusal(400, "invalid_request_error", "custom_api_path"),
  );
  expect(await call("PATCH", path, { upstreams: ["nowhere"] })).toMatchObject(
    refusal(400, "invalid_request_error", "upstreams.0"),
  );
  expect(await done("GET", path)).toMatchObject({ name: "renamed", hourly: HOURLY, account: whole.account });
});

it("is held a day ahead, begun once, and charged to the ms when it is deleted", async () => {
  const scene = await Scene.make(100);
  const put = await scene.put();
  expect(put).toMatchObject({ status: 200, body: { instance_id: scene.id, hourly: HOURLY } });
  expect(await done("GET", `/instances/${scene.id}`)).toEqual(put.body);
  for (const again of [put.body.name, "renamed", "llama"]) expect((await scene.put({ name: again })).status).toBe(200);
  expect(await scene.audit()).toMatchObject({ ok: true, open_holds: 1, held_usd: 24 * PRICE, balance_usd: 100 });
  expect(await scene.rentals()).toMatchObject([
    {
      id: 1000,
      kind: "inference",
      status: "running",
      upstream_id: scene.id,
      gpus: 4,
      hourly_price_usd: PRICE,
      hourly_cost_usd: COST,
    },
  ]);
  await scene.later(HOUR + 1);
  expect(await done("DELETE", `/instances/${scene.id}`)).toEqual({ id: String(scene.id), deleted: true });
  const charged = (PRICE * (HOUR + 1)) / HOUR;
  expect(await scene.charges()).toEqual([expect.closeTo(charged, 8)]);
  expect(await scene.audit()).toMatchObject({ ok: true, open_holds: 0, held_usd: 0, problems: [] });
  expect((await scene.ledger())[0]).toMatchObject({ call_id: `cmp-${scene.renter.number}-1000-1` });
  expect((await call("DELETE", `/instances/${scene.id}`)).status).toBe(404);
  // Begun again it is another rental.
  expect((await scene.put({ hourly: { ...HOURLY, replicas: 1 } })).status).toBe(200);
  expect((await scene.rentals())[0]).toMatchObject({ id: 1001, gpus: 2 });
});

it("another `hourly`, none, or another account: 409 until it is deleted", async () => {
  const scene = await Scene.make(100);
  const other = await Renter.make();
  await scene.put();
  for (const fields of [
    { hourly: { ...HOURLY, replicas: 3 } },
    { hourly: { ...HOURLY, gpu_type: "A100" } },
    { hourly: undefined },
    { account: other.id },
  ]) {
    const refused = await scene.put(fields);
    expect(refused).toMatchObject(refusal(409, "instance_hourly", "hourly"));
    expect(refused.body.error.message).toContain("2 x 2 H100");
  }
  expect((await done("GET", `/audit/${other.id}`)).open_holds).toBe(0);
  expect(await scene.audit()).toMatchObject({ open_holds: 1, held_usd: 24 * PRICE });
});

it.each<[string, Json, number, string, string]>([
  [
    "a GPU without a price",
    { hourly: { ...HOURLY, gpu_type: "A 100" } },
    400,
    "invalid_request_error",
    "hourly.gpu_type",
  ],
  ["no GPU", { hourly: { ...HOURLY, gpu_count: 0 } }, 400, "invalid_request_error", "hourly.gpu_count"],
  ["an unknown field", { hourly: { ...HOURLY, hours: 3 } }, 400, "invalid_request_error", "hourly.hours"],
  ["more than the balance", { hourly: { ...HOURLY, replicas: 64 } }, 402, "insufficient_quota", "hourly"],
])("%s is refused, and nothing is held or registered", async (_, fields, status, code, param) => {
  const scene = await Scene.make(30);
  expect(await scene.put(fields)).toMatchObject(refusal(status, code, param));
  expect(await scene.audit()).toMatchObject({ open_holds: 0, held_usd: 0 });
  expect((await call("GET", `/instances/${scene.id}`)).status).toBe(404);
});

it("of two accounts that get one instance at once, one pays and the other holds nothing", async () => {
  const [one, two] = [await Scene.make(100), await Scene.make(100)];
  const whole = (scene: Scene) => ({
    account: scene.renter.id,
    name: "llama",
    upstreams: [scene.service.id],
    hourly: HOURLY,
  });
  const answers = await Promise.all([one, two].map((scene) => call("PUT", `/instances/${one.id}`, whole(scene))));
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 409]);
  const holds = await Promise.all([one, two].map(async (scene) => (await scene.audit()).open_holds));
  expect(holds).toEqual(answers.map(({ status }) => (status === 200 ? 1 : 0)));
});

it("its calls cost nothing, with a price of their own or without, by an alias too", async () => {
  const scene = await Scene.make(100);
  await scene.put();
  expect(await scene.chat()).toMatchObject({ status: 200, body: { usage: { total_tokens: 12 } } });
  const tokens = { cost_usd: 1, price_usd: 2 };
  const row = { kind: "chat", prices: { input_tokens: tokens, output_tokens: tokens }, max_output_tokens: 100 };
  await done("PUT", `/models/llama:${scene.id}`, row);
  await done("PUT", `/aliases/mine`, {
    account: scene.renter.id,
    targets: [{ upstream: scene.service.id, model: `llama:${scene.id}` }],
  });
  expect([(await scene.chat()).status, (await scene.chat("mine")).status]).toEqual([200, 200]);
  await vi.waitFor(async () => expect((await scene.ledger()).filter(({ kind }) => kind === "charge")).toHaveLength(3), {
    timeout: 20_000,
  });
  expect(await scene.charges()).toEqual([0, 0, 0]);
});

it("without money its calls are 402 and the operator is told; with money again it is served from then on", async () => {
  const lines = vi.spyOn(console, "log").mockImplementation(() => undefined);
  const told = (): number =>
    lines.mock.calls
      .map(([line]) => JSON.parse(String(line)))
      .filter(({ event, account }) => event === "instance_unpaid" && account === scene.renter.id).length;
  const scene = await Scene.make(36 * PRICE);
  await scene.put();
  await done("PUT", `/aliases/mine`, {
    account: scene.renter.id,
    targets: [{ upstream: scene.service.id, model: `llama:${scene.id}` }],
  });
  await scene.later(DAY);
  expect(await scene.audit()).toMatchObject({ held_usd: 12 * PRICE, balance_usd: 12 * PRICE });
  expect((await scene.chat()).status).toBe(200);
  await scene.later(DAY / 2);
  expect(await scene.audit()).toMatchObject({ ok: true, open_holds: 0, balance_usd: 0 });
  expect((await scene.charges()).filter((usd) => usd > 0)).toEqual([24 * PRICE, 12 * PRICE]);
  const before = scene.service.calls.length;
  for (const model of [undefined, "mine"]) {
    const refused = await scene.chat(model);
    expect(refused).toMatchObject({ status: 402, body: { error: { code: "insufficient_quota" } } });
    expect(refused.body.error.message).toContain("paid by the hour");
  }
  expect(scene.service.calls.slice(before)).toEqual([]);
  expect([told(), (await scene.rentals())[0].status]).toEqual([1, "unpaid"]);
  await scene.later(300_000);
  await scene.later(300_000);
  // Told again every five minutes.
  expect([2, 3]).toContain(told());
  // An unpaid instance keeps its account, though nothing is held.
  const kept = await call("DELETE", `/accounts/${scene.renter.id}`);
  expect(kept).toMatchObject(refusal(409, "compute_in_use", null));

  await scene.later(50 * 60_000);
  await done("POST", `/accounts/${scene.renter.id}/credits`, { amount_usd: 2 * PRICE, reference: "more" });
  expect((await scene.chat()).status).toBe(200);
  const resumed = await scene.audit();
  expect(resumed).toMatchObject({ ok: true, held_usd: 2 * PRICE });
  // The hour that nobody paid is the operator's.
  expect(resumed.operator_loss_usd).toBeCloseTo(COST, 8);
  await scene.later(HOUR);
  await done("DELETE", `/instances/${scene.id}`);
  expect((await scene.charges()).filter((usd) => usd > 0)).toEqual([24 * PRICE, 12 * PRICE, PRICE]);
  expect(await scene.audit()).toMatchObject({ ok: true, open_holds: 0, balance_usd: PRICE, problems: [] });
});

it("one that is unpaid is deleted without a charge, and its time stays a loss", async () => {
  const scene = await Scene.make(24 * PRICE);
  await scene.put();
  await scene.later(DAY + 2 * HOUR);
  expect((await scene.chat()).status).toBe(402);
  await done("DELETE", `/instances/${scene.id}`);
  expect(await scene.charges()).toEqual([24 * PRICE]);
  const audit = await scene.audit();
  expect(audit).toMatchObject({ ok: true, open_holds: 0, balance_usd: 0 });
  expect(audit.operator_loss_usd).toBeCloseTo(2 * COST, 8);
  expect((await call("DELETE", `/accounts/${scene.renter.id}`)).status).toBe(200);
});

it("one whose PUT died before the books had it charges nobody, and a repeat in time goes on with it", async () => {
  const scene = await Scene.make(100);
  const gpuRow = await currentModel(env.BOOKS, "gpu/H100", Date.now());
  if (!gpuRow) throw new Error("no price");
  const object = accountObject(env, asId<AccountNumber>(scene.renter.number));
  const hourly = { gpuType: "H100", gpuCount: 2, replicas: 2 };
  const asked = { instanceId: scene.id, stored: false, hourly, upstream: scene.service.id, gpuRow };
  expect(await object.beginHourly(asked)).toMatchObject({ kind: "begun", rental: 1000, anew: true });
  await scene.later(5 * 60_000);
  expect(await scene.audit()).toMatchObject({ ok: true, open_holds: 1, held_usd: 24 * PRICE });
  expect((await scene.put()).status).toBe(200);
  await scene.later(DAY);
  expect(await scene.charges()).toEqual([24 * PRICE]);
  await done("DELETE", `/instances/${scene.id}`);

  const lost = { ...asked, instanceId: ++nextInstance };
  const before = (await scene.audit()).balance_usd;
  await object.beginHourly(lost);
  await scene.later(10 * 60_000);
  expect(await scene.audit()).toMatchObject({ ok: true, open_holds: 0, held_usd: 0, balance_usd: before });
  await scene.later(3 * DAY);
  expect(await scene.audit()).toMatchObject({ ok: true, balance_usd: before, operator_loss_usd: 0 });
});

it("one that the books have and whose PUT was never confirmed says DELETE first, and is begun anew after that", async () => {
  const scene = await Scene.make(100);
  const begin = Account.prototype.beginHourly;
  const confirmed = vi.spyOn(Account.prototype, "beginHourly").mockImplementation(async function (
    this: Account,
    asked,
  ) {
    if (asked.stored) throw new Error("The object is gone.");
    return begin.call(this, asked);
  });
  expect((await scene.put()).status).toBeGreaterThanOrEqual(500);
  confirmed.mockRestore();
  await scene.later(10 * 60_000);
  expect(await scene.audit()).toMatchObject({ ok: true, open_holds: 0, balance_usd: 100 });
  const refused = await scene.put();
  expect(refused).toMatchObject(refusal(409, "instance_hourly", "hourly"));
  expect(refused.body.error.message).toContain("DELETE it first");
  expect(await scene.audit()).toMatchObject({ ok: true, open_holds: 0, balance_usd: 100 });
  await done("DELETE", `/instances/${scene.id}`);
  expect((await scene.put()).status).toBe(200);
  expect(await scene.audit()).toMatchObject({ ok: true, open_holds: 1, held_usd: 24 * PRICE });
});

/** Both end at a full hour. */
const DAYS = IN_FULL ? 30 : 18;

it("weeks with an upstream that is away for three of them, and objects evicted: all its hours are charged, once", async () => {
  const scene = await Scene.make(40 * 24 * PRICE);
  await scene.put();
  const object = accountObject(env, asId<AccountNumber>(scene.renter.number));
  for (let day = 1; day <= DAYS; day++) {
    const away = day >= 10 && day < 13;
    scene.service.before = (asked) => {
      if (away) throw new Error("Network connection lost.");
      return asked === "POST /v1/chat/completions" && Response.json(chat);
    };
    // Late by up to an hour: a late turn pays for what it missed.
    await scene.later(DAY + (day % 3) * (HOUR / 2));
    if (day % 5 !== 0) continue;
    await evictDurableObject(object as unknown as DurableObjectStub);
    // Where its upstream is away its calls fail; its money goes on.
    const { status } = await scene.chat();
    if (away) expect(status).toBeGreaterThanOrEqual(500);
    else expect(status).toBe(200);
  }
  const hours = DAYS * 24 + DAYS / 2;
  await done("DELETE", `/instances/${scene.id}`);
  const all = (await scene.charges()).filter((usd) => usd > 0);
  expect(all.reduce((sum, usd) => sum + usd, 0)).toBeCloseTo(hours * PRICE, 6);
  const audit = await scene.audit();
  expect(audit).toMatchObject({ ok: true, problems: [], open_holds: 0, operator_loss_usd: 0 });
  expect(audit.balance_usd).toBeCloseTo((40 * 24 - hours) * PRICE, 6);
});

it("a clock that is set back ends no rental's hold", async () => {
  const scene = await Scene.make(100);
  await scene.put();
  await scene.later(HOUR);
  await scene.later(-2 * HOUR);
  // Sees the clock as it is now: from here on its time counts.
  await scene.audit();
  await scene.later(10 * 60_000);
  expect(await scene.audit()).toMatchObject({ ok: true, open_holds: 1, held_usd: 24 * PRICE, operator_loss_usd: 0 });
  await accountObject(env, asId<AccountNumber>(scene.renter.number)).endHourly(1000);
  expect(await scene.audit()).toMatchObject({
    ok: true,
    open_holds: 0,
    balance_usd: expect.closeTo(100 - PRICE / 6, 8),
  });
});

it("and a launch wait for money that is leased out, and for nothing else", async () => {
  const scene = await Scene.make(24 * PRICE);
  await done("PATCH", `/accounts/${scene.renter.id}`, { compute_upstream: scene.service.id });
  const secrets = await readSecrets(env);
  if (!secrets.ok) throw new Error("no secrets");
  const keyDigest = await secrets.secrets.digestOf(scene.renter.key);
  const account = accountObject(env, scene.renter.number as AccountNumber);
  const leased = async () => {
    const id = asId<CallId>(crypto.randomUUID());
    const wanted = { requests: 1, tokens: 1, nanoUsd: 1_000_000 };
    const { leases } = await account.report({ calls: [], over: [], asks: [{ id, keyDigest, wanted }] });
    expect(leases[0]).toMatchObject({ id });
    return () => account.report({ calls: [], over: [{ id, admitted: 0 }], asks: [] });
  };
  // Less than the life of a lease, which a call would wait for.
  const soon = <Answer>(answer: Promise<Answer>, withinMs = 1_000) =>
    Promise.race([answer, new Promise((resolve) => setTimeout(() => resolve("waits"), withinMs))]);
  const more = () => scene.put({ hourly: { ...HOURLY, replicas: 3 } });
  expect(await soon(more())).toMatchObject({ status: 402 });
  const giveBack = await leased();
  const short = scene.put();
  expect(await soon(short, 150)).toBe("waits");
  await giveBack();
  expect((await short).status).toBe(200);
  await done("DELETE", `/instances/${scene.id}`);

  // A launch holds an hour of a GPU.
  await done("POST", `/accounts/${scene.renter.id}/credits`, {
    kind: "correction",
    amount_usd: 0.25 - 24 * PRICE,
    reference: "all but an hour",
  });
  const giveBackToo = await leased();
  expect(await soon(scene.renter.launch({ region_id: "nowhere" }))).toMatchObject({ status: 400 });
  const launch = scene.renter.launch();
  expect(await soon(launch, 150)).toBe("waits");
  await giveBackToo();
  const launched = await launch;
  expect(launched.status).toBe(202);
  expect((await scene.renter.ask("POST", `/gpu-instances/${launched.body.id}/terminate`)).status).toBe(202);
  expect(await scene.audit()).toMatchObject({ ok: true, problems: [] });
});
