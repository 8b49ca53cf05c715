/**
 * The contract's tables of limits and errors through the real process: each limit at it and one beyond, each status
 * with a text that says what to do. A new limit or error is a row of a table here.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { PRICE, Renter } from "../../support/compute/renter.ts";
import { eventually } from "../../support/eventually.ts";
import { world } from "../../support/world.ts";

const process = world();
const { operator } = process;
/** An id that nobody has. */
const NONE = 999_999;

/** A tenant with room for everything; its region has 4 GPUs a node where `perNode` says so. */
async function rich(perNode = 8): Promise<Renter> {
  const renter = await Renter.make(process, 100_000);
  await renter.sandbox.account(renter.seat, { balance_usd: 1_000_000, keys: [{ key: `key-${renter.seat}` }] });
  await renter.sandbox.region(renter.region, {
    gpu_type: `GPU ${renter.region}`,
    hourly_rate_usd: 2,
    gpu_per_node: perNode,
    total_nodes: 64,
  });
  return renter;
}
const cluster = (renter: Renter, fields: object) =>
  renter.send("POST", "/gpu-clusters", {
    ...{ region_id: renter.region, gpu_count: 1, replicas: 2, container_image: "img:1", estimated_duration_hours: 1 },
    ...fields,
  });

/** What is sent, what is within a limit, and what is beyond it. */
interface Limit {
  readonly of: string;
  readonly send: (renter: Renter, fields: Record<string, unknown>) => Promise<{ status: number; body: unknown }>;
  readonly within: readonly Record<string, unknown>[];
  readonly beyond: readonly Record<string, unknown>[];
  readonly status: number;
  /** GPUs a node; 8 where absent. */
  readonly perNode?: number;
}
const instance: Limit["send"] = (renter, fields) => renter.launch(fields);

const LIMITS: readonly Limit[] = [
  {
    of: "instance: gpu_count 1-8",
    send: instance,
    within: [{ gpu_count: 1 }, { gpu_count: 8 }],
    beyond: [{ gpu_count: 0 }, { gpu_count: 9 }, { gpu_count: 1.5 }, { gpu_count: "1" }, { gpu_count: null }],
    status: 202,
  },
  {
    of: "instance: gpu_count at most the region's gpu_per_node",
    send: instance,
    within: [{ gpu_count: 4 }],
    beyond: [{ gpu_count: 5 }],
    status: 202,
    perNode: 4,
  },
  {
    of: "instance: duration 0 or 1-72 hours",
    send: instance,
    within: [0, 1, 72].map((estimated_duration_hours) => ({ estimated_duration_hours })),
    beyond: [-1, 73, 0.5].map((estimated_duration_hours) => ({ estimated_duration_hours })),
    status: 202,
  },
  {
    of: "cluster: 2-8 replicas of 1, 2, 4 or 8 GPUs for 1-72 hours",
    send: cluster,
    within: [{ replicas: 8, gpu_count: 8, estimated_duration_hours: 72 }, { gpu_count: 2 }, { gpu_count: 4 }, {}],
    beyond: [
      ...[1, 9, null].map((replicas) => ({ replicas })),
      ...[0, 3, 5, 6, 7, 16].map((gpu_count) => ({ gpu_count })),
      ...[0, 73, null].map((estimated_duration_hours) => ({ estimated_duration_hours })),
    ],
    status: 202,
  },
  {
    of: "cluster: gpu_count at most the region's gpu_per_node",
    send: cluster,
    within: [{ gpu_count: 4 }],
    beyond: [{ gpu_count: 8 }],
    status: 202,
    perNode: 4,
  },
];

describe.concurrent("a limit, at it and one beyond", () => {
  test.each(LIMITS)("$of", async ({ send, within, beyond, status, perNode }) => {
    const renter = await rich(perNode);
    for (const fields of beyond) {
      const refused = await send(renter, fields);
      expect([refused.status, refused.body], JSON.stringify(fields)).toEqual([400, { error: expect.any(String) }]);
    }
    expect(await renter.tenant.audit()).toMatchObject({ open_holds: 0, held_usd: 0 });
    for (const fields of within) expect([fields, (await send(renter, fields)).status]).toEqual([fields, status]);
    expect(await renter.tenant.audit()).toMatchObject({ ok: true, open_holds: within.length });
  });

  test("instance: extended by 1-72 hours; cluster: scaled to 1-8 replicas", async () => {
    const renter = await rich();
    const fixed = await renter.launch({ estimated_duration_hours: 1 });
    const replicated = await cluster(renter, {});
    await renter.until(fixed.body.id, "running");
    const running = async () =>
      (await renter.send("GET", `/gpu-clusters/${replicated.body.id}`)).body.status === "running" ? true : undefined;
    const tried = async (path: string, field: string, values: readonly unknown[]) => {
      const statuses: number[] = [];
      for (const value of values) statuses.push((await renter.send("POST", path, { [field]: value })).status);
      return statuses;
    };
    const extend = `/gpu-instances/${fixed.body.id}/extend`;
    expect(await tried(extend, "hours", [0, 73, "1", null, 1, 72])).toEqual([400, 400, 400, 400, 200, 200]);
    expect(await renter.send("GET", `/gpu-instances/${fixed.body.id}`)).toMatchObject({
      body: { instance: { estimated_duration_hours: 74 }, held_amount: 74 * PRICE },
    });
    const scale = `/gpu-clusters/${replicated.body.id}/scale`;
    for (const [replicas, status] of [
      [0, 400],
      [9, 400],
      [8, 200],
      [1, 200],
    ] as const) {
      await eventually("it runs, with no change under way", running, { withinMs: 20_000, everyMs: 1_000 });
      expect([replicas, await tried(scale, "replicas", [replicas])]).toEqual([replicas, [status]]);
    }
  });

  test("10 launches a minute of an account, instances and clusters together; refused bodies are none", async () => {
    const renter = await rich();
    for (let count = 0; count < 12; count++) expect((await renter.launch({ gpu_count: 9 })).status).toBe(400);
    const launches = Array.from({ length: 12 }, (_, at) => (at % 2 ? cluster(renter, {}) : renter.launch()));
    const answers = await Promise.all(launches);
    const late = answers.filter(({ status }) => status === 429);
    expect(answers.filter(({ status }) => status === 202)).toHaveLength(10);
    expect(late).toHaveLength(2);
    for (const { headers, body } of late) {
      expect(Number(headers.get("retry-after"))).toBeGreaterThan(0);
      expect(body).toEqual({ error: expect.stringMatching(/^At most 10 .* Try again in \d+ s\.$/) });
    }
    expect(await renter.sandbox.executions(renter.seat)).toHaveLength(10);
  });

  test("max_gpus of key, team and account: at it, and one GPU beyond", async () => {
    const renter = await rich();
    const { account, keyId } = renter.tenant;
    await operator.call("PATCH", `/accounts/${account}/keys/${keyId}`, { max_gpus: 3 });
    expect((await renter.launch({ gpu_count: 3 })).status).toBe(202);
    expect(await renter.launch()).toMatchObject({ status: 429, body: { error: expect.stringContaining("The key") } });
    await operator.call("PATCH", `/accounts/${account}/keys/${keyId}`, { max_gpus: null });
    await operator.call("PATCH", `/accounts/${account}`, { max_gpus: 5 });
    expect(await cluster(renter, { gpu_count: 2 })).toMatchObject({
      status: 429,
      body: { error: expect.stringContaining("The account may have 5 GPUs at once (max_gpus) and has 3.") },
    });
    expect((await cluster(renter, {})).status).toBe(202);
  });
});

describe("each status of the contract's errors", () => {
  let renter: Renter;
  let hourly: number;
  let poor: Renter;
  let oneTier: Renter;
  let scopeless: string;
  let disabled: string;

  beforeAll(async () => {
    renter = await rich();
    poor = await Renter.make(process, PRICE * 1.5);
    oneTier = await rich();
    const gpu = encodeURIComponent(`gpu/${encodeURIComponent(`GPU ${oneTier.region}`)}`);
    const prices = { gpu_hours: { cost_usd: 2, price_usd: PRICE } };
    await operator.call("PUT", `/models/${gpu}`, { kind: "gpu", prices });
    hourly = (await renter.launch()).body.id;
    scopeless = (await operator.key(renter.tenant.account)).key;
    const enabled = await operator.tenant({ compute_enabled: true }, { scopes: ["compute"] });
    await operator.call("PATCH", `/accounts/${enabled.account}`, { compute_enabled: false });
    disabled = enabled.key;
  });

  interface Case {
    readonly status: number;
    readonly why: string;
    readonly text: RegExp;
    readonly send: () => Promise<{ status: number; body: unknown }>;
  }
  const withKey = async (key: string | null, method: string, path: string) => {
    const headers = key === null ? {} : { authorization: `Bearer ${key}` };
    const response = await fetch(`${operator.url}${path}`, { method, headers });
    return { status: response.status, body: await response.json() };
  };
  const post = (path: string, body?: unknown) => renter.send("POST", path, body);

  const CASES: readonly Case[] = [
    { status: 401, why: "no key", text: /Authorization/, send: () => withKey(null, "GET", "/gpu-instances") },
    { status: 401, why: "a bad key", text: /sk-tg-/, send: () => withKey("sk-tg-x", "POST", "/gpu-clusters") },
    { status: 403, why: "no scope", text: /no compute scope/, send: () => withKey(scopeless, "GET", "/gpu-clusters") },
    {
      status: 403,
      why: "an account without access",
      text: /Compute API access/,
      send: () => withKey(disabled, "GET", "/gpu-clusters"),
    },
    { status: 402, why: "a launch", text: /needs a hold of 6/, send: () => poor.launch({ gpu_count: 2 }) },
    { status: 402, why: "a cluster", text: /needs a hold of 6/, send: () => cluster(poor, {}) },
    {
      status: 404,
      why: "an instance",
      text: /GET \/gpu-instances/,
      send: () => renter.send("GET", `/gpu-instances/${NONE}`),
    },
    {
      status: 404,
      why: "a cluster",
      text: /GET \/gpu-clusters/,
      send: () => renter.send("DELETE", `/gpu-clusters/${NONE}`),
    },
    {
      status: 404,
      why: "an instance as a cluster",
      text: /cluster/,
      send: () => renter.send("GET", `/gpu-clusters/${hourly}`),
    },
    { status: 400, why: "an unknown region", text: /`region_id`/, send: () => renter.launch({ region_id: "nowhere" }) },
    { status: 400, why: "another region's GPU", text: /`gpu_type`/, send: () => renter.launch({ gpu_type: "other" }) },
    {
      status: 400,
      why: "a tier not sold",
      text: /`interruptible`/,
      send: () => oneTier.launch({ interruptible: true }),
    },
    {
      status: 400,
      why: "SSH without a key",
      text: /`ssh_public_key`/,
      send: () => renter.launch({ ssh_enabled: true }),
    },
    {
      status: 400,
      why: "an empty PATCH",
      text: /container_image/,
      send: () => renter.send("PATCH", `/gpu-instances/${hourly}`, {}),
    },
    {
      status: 409,
      why: "hidden before its end",
      text: /Terminate it first/,
      send: () => renter.send("DELETE", `/gpu-instances/${hourly}`),
    },
    {
      status: 400,
      why: "extended without an end",
      text: /end/,
      send: async () => {
        await renter.until(hourly, "running");
        return post(`/gpu-instances/${hourly}/extend`, { hours: 1 });
      },
    },
    {
      status: 409,
      why: "terminated twice",
      text: /terminated/,
      send: async () => {
        await post(`/gpu-instances/${hourly}/terminate`);
        return post(`/gpu-instances/${hourly}/terminate`);
      },
    },
    {
      status: 409,
      why: "no free capacity",
      text: /./,
      send: async () => {
        await renter.sandbox.region(renter.region, { taken_gpus: 64 * 8 });
        return renter.launch({ gpu_count: 8 });
      },
    },
  ];
  test.each(CASES)("$status: $why", async ({ status, text, send }) => {
    const answer = await send();
    expect([answer.status, answer.body]).toEqual([status, { error: expect.stringMatching(text) }]);
  });

  test("402 takes no hold and sends nothing", async () => {
    expect(await poor.tenant.audit()).toMatchObject({ open_holds: 0, held_usd: 0 });
    expect((await poor.sandbox.calls(poor.seat)).filter(({ method }) => method !== "GET")).toEqual([]);
  });

  test("a pending one is 409 to terminate, and 402 to extend beyond the money", async () => {
    const launched = await poor.launch({ estimated_duration_hours: 1 });
    const path = `/gpu-instances/${launched.body.id}`;
    expect(await poor.send("POST", `${path}/terminate`)).toMatchObject({
      status: 409,
      body: { error: expect.stringContaining("pending") },
    });
    await poor.until(launched.body.id, "running");
    expect(await poor.send("POST", `${path}/extend`, { hours: 1 })).toMatchObject({
      status: 402,
      body: { error: expect.stringContaining("Top up") },
    });
    expect((await poor.send("POST", `${path}/terminate`)).status).toBe(202);
  });
});
