/** What accounts on one shared upstream account must not get of each other: SSH keys, registry credentials. */
import { evictDurableObject, runDurableObjectAlarm } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterAll, afterEach, beforeEach, expect, it, vi } from "vitest";
import { type AccountNumber, asId, type CallId } from "../../src/core/ids.ts";
import { MADE_KEYS } from "../support/compute/ssh-keys.ts";
import { ComputeService, Renter, serveCompute } from "../support/worker/compute-service.ts";
import { done, type Json, settled } from "../support/worker/operator.ts";

afterAll(settled);
beforeEach(async () => {
  serveCompute();
  await done("PUT", "/models/gpu%2FH100", { kind: "gpu", prices: { gpu_hours: { cost_usd: 2, price_usd: 3 } } });
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

const [KEY = "", OTHER = "", THIRD = "", FOURTH = ""] = MADE_KEYS.map(([, line]) => line);
const LAUNCH = "POST /gpu-instances";
const withKey = (renter: Renter, ssh_public_key: string) => renter.launch({ ssh_enabled: true, ssh_public_key });
const keysAt = (seat: ComputeService) => seat.things["ssh-keys"] ?? [];
const brokerOf = (seat: ComputeService) => env.BROKERS.getByName(seat.id);
const errorOf = ({ status, body }: { status: number; body: Json }) => [status, body.error];
const tenants = async (seat: ComputeService) =>
  [await Renter.make({ compute_upstream: seat.id }), await Renter.make({ compute_upstream: seat.id })] as const;

it("launches with a key go one at a time: each finds no key upstream and leaves none", async () => {
  const seat = await ComputeService.make({ shared: true });
  const [one, two] = await tenants(seat);
  const found: number[] = [];
  seat.before = async (call) => {
    if (call === LAUNCH) found.push(keysAt(seat).length);
  };
  const launches = [withKey(one, KEY), withKey(two, OTHER), withKey(one, THIRD), withKey(two, FOURTH)];
  expect((await Promise.all(launches)).map(({ status }) => status)).toEqual([202, 202, 202, 202]);
  expect(found).toEqual([0, 0, 0, 0]);
  await vi.waitFor(() => expect(keysAt(seat)).toEqual([]), { timeout: 20_000 });
  // Their own lists have them.
  expect((await one.ask("GET", "/ssh-keys")).body.map((key: Json) => key.public_key).sort()).toEqual(
    [KEY, THIRD].sort(),
  );
});

it("on a dedicated upstream launches with a key ask for no list, and keys stay", async () => {
  const seat = await ComputeService.make();
  const renter = await Renter.make({ compute_upstream: seat.id });
  const before = seat.calls.length;
  const both = await Promise.all([withKey(renter, KEY), withKey(renter, OTHER)]);
  expect(both.map(({ status }) => status)).toEqual([202, 202]);
  expect(seat.calls.slice(before).filter((call) => call.includes("ssh-keys"))).toEqual([]);
  expect(keysAt(seat)).toHaveLength(2);
});

it("a key upstream that is nobody's: 503 and an event, never deleted; launches without a key go on", async () => {
  const seat = await ComputeService.make({ shared: true });
  const [one, two] = await tenants(seat);
  const logged = vi.spyOn(console, "log").mockImplementation(() => undefined);
  seat.add("ssh-keys", { name: "by hand", public_key: OTHER });
  expect((await withKey(one, KEY)).status).toBe(503);
  // His own key may be there by hand too: that tells nothing of whose it is.
  expect((await withKey(two, OTHER)).status).toBe(503);
  expect(logged.mock.calls.join().split("compute_foreign_ssh_key")).toHaveLength(2);
  expect((await done("GET", `/accounts/${one.id}`)).held_usd).toBe(0);
  expect((await two.launch()).status).toBe(202);
  expect(keysAt(seat)).toHaveLength(1);
  expect(seat.changes()).toEqual([LAUNCH]);
  seat.things["ssh-keys"] = [];
  expect((await withKey(one, KEY)).status).toBe(202);
});

it.each([
  [
    "has no answer",
    async (request: Request) => {
      await request.text();
      throw new Error("Network connection lost.");
    },
  ],
  ["is answered 500", () => Response.json({ error: "?" }, { status: 500 })],
])("a launch that %s keeps others with a key back until it can come no more; its key is deleted", async (_, fail) => {
  vi.useFakeTimers({ now: Date.now(), toFake: ["Date"] });
  const seat = await ComputeService.make({ shared: true });
  const [one, two] = await tenants(seat);
  seat.before = (call, request) => (call === LAUNCH ? fail(request) : undefined);
  expect((await withKey(one, KEY)).status).toBe(202);
  seat.before = () => undefined;
  // It is executed late.
  const made = seat.add("ssh-keys", {
    name: "late",
    public_key: `${KEY.split(" ").slice(0, 2).join(" ")} other words`,
  });
  expect((await withKey(two, OTHER)).status).toBe(503);
  expect(keysAt(seat)).toEqual([]);
  expect(seat.changes()).toContain(`DELETE /ssh-keys/${made}`);
  vi.setSystemTime(Date.now() + 119_000);
  expect((await withKey(two, OTHER)).status).toBe(503);
  vi.setSystemTime(Date.now() + 2_000);
  expect((await withKey(two, OTHER)).status).toBe(202);
});

it("a delete that fails is repeated, over a restart too, and no launch with a key goes before", async () => {
  vi.useFakeTimers({ now: Date.now(), toFake: ["Date"] });
  const seat = await ComputeService.make({ shared: true });
  const [one, two] = await tenants(seat);
  seat.before = (call) => (call.startsWith("DELETE /ssh-keys") ? new Response("{}", { status: 500 }) : undefined);
  expect((await withKey(one, KEY)).status).toBe(202);
  expect((await withKey(two, OTHER)).status).toBe(503);
  expect(keysAt(seat)).toMatchObject([{ public_key: KEY }]);
  await evictDurableObject(brokerOf(seat));
  seat.before = () => undefined;
  vi.setSystemTime(Date.now() + 61_000);
  await runDurableObjectAlarm(brokerOf(seat));
  expect(keysAt(seat)).toEqual([]);
  expect((await withKey(two, OTHER)).status).toBe(202);
});

it("where no list of keys can be had, a launch with a key is 503 and nothing is sent", async () => {
  const seat = await ComputeService.make({ shared: true });
  const [one] = await tenants(seat);
  seat.before = (call) => (call === "GET /ssh-keys" ? new Response("{}") : undefined);
  expect((await withKey(one, KEY)).status).toBe(503);
  expect(seat.changes()).toEqual([]);
});

it("a reference that is registered upstream by hand is 400 for launches and PATCHes, in whatever spelling", async () => {
  const seat = await ComputeService.make({ shared: true });
  const [one] = await tenants(seat);
  const launched = await one.launch();
  seat.add("container-images", { registry_url: "ghcr.io/ours/app:1", has_credentials: true });
  seat.add("container-images", { registry_url: "app" });
  for (const container_image of [
    "ghcr.io/ours/app:1",
    "GHCR.io:443/ours/app:1",
    "docker.io/library/app:latest",
    " ghcr.io/ours/app:1",
    "https://ghcr.io/ours/app:1",
  ]) {
    const refused = [400, expect.stringContaining("`container_image`")];
    await evictDurableObject(brokerOf(seat));
    expect(errorOf(await one.launch({ container_image }))).toEqual(refused);
    expect(errorOf(await one.ask("PATCH", `/gpu-instances/${launched.body.id}`, { container_image }))).toEqual(refused);
    const cluster = { container_image, gpu_count: 1, replicas: 2, estimated_duration_hours: 1, region_id: "r" };
    expect(errorOf(await one.ask("POST", "/gpu-clusters", cluster))).toEqual(refused);
  }
  expect((await one.launch({ container_image: "ghcr.io/ours/app:2" })).status).toBe(202);
  expect(seat.changes()).toEqual([LAUNCH, LAUNCH]);
  await evictDurableObject(brokerOf(seat));
  seat.before = (call) => (call === "GET /container-images" ? new Response("{}") : undefined);
  expect((await one.launch()).status).toBe(503);
});

it("whether it is shared is read anew where that matters: a copy of before lets no credential and no storage up", async () => {
  const seat = await ComputeService.make();
  const renter = await Renter.make({ compute_upstream: seat.id });
  expect((await renter.ask("GET", "/gpu-instances/availability")).status).toBe(200);
  await env.BOOKS.prepare("update upstreams set shared = 1 where id = ?1").bind(seat.id).run();
  const image = { name: "a", registry_url: "ghcr.io/a:1", registry_username: "robot", registry_secret: "secret" };
  expect((await renter.ask("POST", "/container-images", image)).status).toBe(400);
  const storage = { new_cloud_drives: [{ name: "d", size_gb: 50, mount_path: "/d" }] };
  expect(errorOf(await renter.launch(storage))).toEqual([400, expect.stringContaining("not offered")]);
  expect(seat.changes()).toEqual([]);
});

it("what was decided for a dedicated upstream is not sent once it is shared", async () => {
  const seat = await ComputeService.make({ shared: true });
  const call = {
    account: asId<AccountNumber>(1),
    callId: asId<CallId>("c"),
    cls: "call",
    method: "POST",
    path: "/container-images",
    body: "{}",
    needsNanoUsd: null,
  } as const;
  const send = (shared: boolean) => brokerOf(seat).send(seat.id, { ...call, terms: { shared, launchKey: null } });
  expect(await send(false)).toMatchObject({ kind: "not_sent", why: "changed" });
  expect(seat.changes()).toEqual([]);
  expect(await send(true)).toMatchObject({ kind: "answered" });
});
