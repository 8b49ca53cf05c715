/** Seats: who has which upstream for compute, and when that may change. */
import { env } from "cloudflare:workers";
import { afterAll, afterEach, beforeEach, expect, it, vi } from "vitest";
import { type AccountId, type AccountNumber, asId } from "../../src/core/ids.ts";
import { accountObject } from "../../src/platform/account/stub.ts";
import { reserveSeat } from "../../src/platform/d1/seats.ts";
import { ComputeService, Renter, serveCompute } from "../support/worker/compute-service.ts";
import { call, done, type Json, refusal, settled } from "../support/worker/operator.ts";

afterAll(settled);
beforeEach(async () => {
  serveCompute();
  await done("PUT", "/models/gpu%2FH100", { kind: "gpu", prices: { gpu_hours: { cost_usd: 2, price_usd: 3 } } });
});
afterEach(() => {
  vi.restoreAllMocks();
});

const move = (renter: Renter, compute_upstream: string | null) =>
  call("PATCH", `/accounts/${renter.id}`, { compute_upstream });
const seatsIn = async (upstream: string): Promise<Json[]> => {
  const query =
    "select account from seats where upstream = ?1 union select account from seat_moves where upstream = ?1";
  return (await env.BOOKS.prepare(query).bind(upstream).all<{ account: string }>()).results.map(
    ({ account }) => account,
  );
};
const inUse = refusal(409, "compute_in_use", null);
const notEmpty = refusal(409, "upstream_not_empty", null);
const taken = refusal(409, "seat_taken", "compute_upstream");

it("an upstream seats one account, also if two come at once; one that is shared seats many", async () => {
  const seat = await ComputeService.make();
  const [one, two] = [await Renter.make(), await Renter.make()];
  const answers = await Promise.all([move(one, seat.id), move(two, seat.id)]);
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 409]);
  expect(answers.find(({ status }) => status === 409)).toMatchObject(taken);
  expect(await seatsIn(seat.id)).toEqual([answers[0].status === 200 ? one.id : two.id]);
  expect(await call("POST", "/accounts", { id: "late", name: "Late", compute_upstream: seat.id })).toMatchObject(taken);
  expect((await call("GET", "/accounts/late")).status).toBe(404);
  await done("POST", "/accounts", { id: "late", name: "Late" });

  const shared = await ComputeService.make({ shared: true });
  const both = await Promise.all([move(one, shared.id), move(two, shared.id)]);
  expect(both.map(({ status }) => status)).toEqual([200, 200]);
  expect(await seatsIn(seat.id)).toEqual([]);
});

it("a seat is taken where nothing is: not on an unknown upstream, one with a leftover, or one that shows no list", async () => {
  const renter = await Renter.make();
  expect(await move(renter, "nowhere")).toMatchObject(refusal(400, "invalid_request_error", "compute_upstream"));
  const seat = await ComputeService.make();
  const left = seat.add("ssh-keys", { name: "a former tenant's" });
  seat.add("gpu-instances", { status: "terminated" });
  seat.add("gpu-clusters", { status: "stopped" });
  seat.add("cloud-drives", { status: "deleted" });
  const refused = await move(renter, seat.id);
  expect(refused).toMatchObject(notEmpty);
  expect(refused.body.error.message).toContain(`ssh_key ${left} (a former tenant's)`);
  expect(await call("POST", "/accounts", { name: "New", compute_upstream: seat.id })).toMatchObject(notEmpty);
  seat.before = (asked) => asked === "GET /container-images" && new Response("{}", { status: 401 });
  seat.things["ssh-keys"] = [];
  const unlisted = await move(renter, seat.id);
  expect(unlisted).toMatchObject(refusal(503, "upstream_not_listed", null));
  expect(unlisted.body.error.message).toContain("image");
  expect([await renter.seat(), await seatsIn(seat.id)]).toEqual([null, []]);
  seat.before = () => undefined;
  expect((await move(renter, seat.id)).status).toBe(200);
  expect([await renter.seat(), await seatsIn(seat.id)]).toEqual([seat.id, [renter.id]]);
});

it("a seat is left with nothing behind: no row of any kind, nothing in the lists", async () => {
  const [old, next] = [await ComputeService.make(), await ComputeService.make()];
  const renter = await Renter.make({ compute_upstream: old.id });
  expect((await renter.launch()).status).toBe(202);
  for (const to of [next.id, null]) {
    const refused = await move(renter, to);
    expect(refused).toMatchObject(inUse);
    expect(refused.body.error.message).toContain(`1 instance on '${old.id}'`);
  }
  // Its other fields are not changed either, and neither account nor upstream goes.
  expect((await call("PATCH", `/accounts/${renter.id}`, { name: "x", compute_upstream: null })).status).toBe(409);
  expect((await done("GET", `/accounts/${renter.id}`)).name).toBe(renter.id);
  expect(await call("DELETE", `/accounts/${renter.id}`)).toMatchObject(inUse);
  expect(await call("DELETE", `/upstreams/${old.id}`)).toMatchObject(refusal(409, "upstream_in_use", null));
  // Neither disabling nor blocking stops anything.
  await done("PATCH", `/accounts/${renter.id}`, { compute_enabled: false, blocked: true });
  expect(old.changes()).toEqual(["POST /gpu-instances"]);
  await done("PATCH", `/accounts/${renter.id}`, { compute_enabled: true, blocked: false });

  await done("POST", `/accounts/${renter.id}/compute/stop`);
  const rented = async () => (await done("GET", `/accounts/${renter.id}/compute`)).data;
  await vi.waitFor(async () => expect(await rented()).toEqual([]), { timeout: 20_000 });
  const drive = old.add("cloud-drives", { status: "available" });
  expect(await move(renter, next.id)).toMatchObject(notEmpty);
  await done("POST", `/compute/${old.id}/terminate`, { kind: "drive", upstream_id: drive });
  expect((await move(renter, next.id)).status).toBe(200);
  expect([await renter.seat(), await seatsIn(old.id), await seatsIn(next.id)]).toEqual([next.id, [], [renter.id]]);
  expect((await renter.launch()).status).toBe(202);
  expect(next.changes()).toEqual(["POST /gpu-instances"]);
  expect(await call("DELETE", `/upstreams/${old.id}`)).toMatchObject({ status: 200 });
});

it("from a shared upstream an account goes though others' things are there", async () => {
  const shared = await ComputeService.make({ shared: true });
  const [one, two] = [
    await Renter.make({ compute_upstream: shared.id }),
    await Renter.make({ compute_upstream: shared.id }),
  ];
  expect((await one.launch()).status).toBe(202);
  expect((await move(two, null)).status).toBe(200);
  expect((await move(two, shared.id)).status).toBe(200);
  expect(await seatsIn(shared.id)).toEqual([one.id, two.id]);
});

it("of two moves at once one counts, in the books as in the account", async () => {
  const [old, left, right] = [await ComputeService.make(), await ComputeService.make(), await ComputeService.make()];
  const renter = await Renter.make({ compute_upstream: old.id });
  const answers = await Promise.all([move(renter, left.id), move(renter, right.id)]);
  expect(answers.some(({ status }) => status === 200)).toBe(true);
  for (const { status } of answers) expect([200, 409]).toContain(status);
  const seat = await renter.seat();
  expect([left.id, right.id]).toContain(seat);
  const seats = await Promise.all([old, left, right].map(({ id }) => seatsIn(id)));
  expect(seats).toEqual([old, left, right].map(({ id }) => (id === seat ? [renter.id] : [])));
});

it("a move that broke off keeps both seats for the account, until it is sent again", async () => {
  const [old, next] = [await ComputeService.make(), await ComputeService.make()];
  const renter = await Renter.make({ compute_upstream: old.id });
  await reserveSeat(env.BOOKS, asId<AccountId>(renter.id), next.id, "broke off", Date.now());
  await accountObject(env, asId<AccountNumber>(renter.number)).moveSeat(old.id, next.id);
  const other = await Renter.make();
  for (const seat of [old, next]) expect(await move(other, seat.id)).toMatchObject(taken);
  expect((await move(renter, next.id)).status).toBe(200);
  expect((await move(other, old.id)).status).toBe(200);
  expect([await seatsIn(old.id), await seatsIn(next.id)]).toEqual([[other.id], [renter.id]]);
});

it("a launch while the lists are read stops the move", async () => {
  const [old, next] = [await ComputeService.make(), await ComputeService.make()];
  const renter = await Renter.make({ compute_upstream: old.id });
  let launched: Json;
  old.before = async (asked) => {
    if (asked === "GET /ssh-keys") launched ??= await renter.launch();
  };
  expect(await move(renter, next.id)).toMatchObject(inUse);
  expect(launched.status).toBe(202);
  expect([await renter.seat(), await seatsIn(next.id)]).toEqual([old.id, []]);
});

it("a launch that still waits for regions when the seat moves is not made on the old one", async () => {
  const [old, next] = [await ComputeService.make(), await ComputeService.make()];
  const renter = await Renter.make({ compute_upstream: old.id });
  const moved = Promise.withResolvers<Json>();
  old.before = async (asked) => {
    if (asked === "GET /gpu-instances/availability") moved.resolve(await move(renter, next.id));
  };
  expect((await renter.launch()).status).toBe(503);
  expect((await moved.promise).status).toBe(200);
  expect([...old.changes(), ...next.changes()]).toEqual([]);
  expect((await renter.launch()).status).toBe(202);
});

it("a launch whose key is revoked while it waits for regions makes nothing and holds nothing", async () => {
  const service = await ComputeService.make();
  const renter = await Renter.make({ compute_upstream: service.id });
  const [key] = (await done("GET", `/accounts/${renter.id}/keys`)).data;
  service.before = async (asked) => {
    if (asked === "GET /gpu-instances/availability") await done("DELETE", `/accounts/${renter.id}/keys/${key.id}`);
  };
  expect((await renter.launch()).status).toBe(401);
  expect(service.changes()).toEqual([]);
  const audit = await env.ACCOUNTS.getByName(String(renter.number)).audit();
  expect(audit).toMatchObject({ ok: true, openHolds: 0 });
  expect((await done("GET", `/accounts/${renter.id}/compute`)).data).toEqual([]);
});

it("address and `shared` of an upstream with seats change only at rest", async () => {
  const seat = await ComputeService.make();
  const path = `/upstreams/${seat.id}`;
  const renter = await Renter.make({ compute_upstream: seat.id });
  seat.add("container-images", { name: "by hand" });
  expect(await call("PATCH", path, { shared: true })).toMatchObject(notEmpty);
  seat.things["container-images"] = [];
  await renter.launch();
  for (const [method, body] of [
    ["PATCH", { shared: true }],
    ["PATCH", { base_url: `https://${seat.host}/other` }],
    ["PUT", { base_url: `https://${seat.host}`, shared: true }],
    ["PUT", { base_url: "https://elsewhere.example", api_key: "other" }],
  ] as const) {
    const refused = await call(method, path, body);
    expect(refused).toMatchObject(inUse);
    expect(refused.body.error.message).toContain(`'${renter.id}' has 1 instance`);
  }
  // What is no move is free, in whatever spelling.
  for (const body of [
    { region: "eu" },
    { api_key: "new" },
    { shared: false },
    { base_url: `https://${seat.host.toUpperCase()}:443/v1/` },
  ]) {
    expect((await call("PATCH", path, body)).status).toBe(200);
  }
  expect(seat.changes()).toEqual(["POST /gpu-instances"]);
});

it("an address that answers no more is left for one where nothing is", async () => {
  const seat = await ComputeService.make();
  const renter = await Renter.make({ compute_upstream: seat.id });
  const [full, empty] = [await ComputeService.make(), await ComputeService.make()];
  full.add("shared-filesystems", { status: "available" });
  seat.before = () => {
    throw new Error("Network connection lost.");
  };
  expect(await move(renter, null)).toMatchObject(refusal(503, "upstream_not_listed", null));
  const to = ({ host }: ComputeService) =>
    call("PATCH", `/upstreams/${seat.id}`, { base_url: `https://${host}`, api_key: "k" });
  expect(await to(full)).toMatchObject(notEmpty);
  expect((await to(empty)).status).toBe(200);
});

it("an upstream that seats two does not become dedicated", async () => {
  const shared = await ComputeService.make({ shared: true });
  const [one, two] = [
    await Renter.make({ compute_upstream: shared.id }),
    await Renter.make({ compute_upstream: shared.id }),
  ];
  const refused = await call("PUT", `/upstreams/${shared.id}`, { base_url: `https://${shared.host}` });
  expect(refused).toMatchObject(refusal(409, "seats_taken", "shared"));
  expect(refused.body.error.message).toContain(`'${one.id}', '${two.id}'`);
  await done("DELETE", `/accounts/${two.id}`);
  expect((await call("PATCH", `/upstreams/${shared.id}`, { shared: false })).status).toBe(200);
});

it("while an upstream changes its address nothing is launched there, and then only at the new one", async () => {
  const seat = await ComputeService.make();
  const renter = await Renter.make({ compute_upstream: seat.id });
  const moved = await ComputeService.make();
  let launched: Json;
  seat.before = async (asked) => {
    if (asked === "GET /ssh-keys") launched ??= await renter.launch();
  };
  const body = { base_url: `https://${moved.host}`, api_key: "other" };
  expect((await call("PATCH", `/upstreams/${seat.id}`, body)).status).toBe(200);
  expect(launched.status).toBe(503);
  expect((await done("GET", `/accounts/${renter.id}/compute`)).data).toEqual([]);
  expect((await renter.launch()).status).toBe(202);
  expect([seat.changes(), moved.changes()]).toEqual([[], ["POST /gpu-instances"]]);
});
