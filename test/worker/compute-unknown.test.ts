/** What an upstream shows: whose it is, what the operator is told, and the end of what is nobody's. */
import { env } from "cloudflare:workers";
import { afterAll, afterEach, beforeEach, expect, it, vi } from "vitest";
import { deploymentMark, formatTag } from "../../src/core/compute/tag.ts";
import { type AccountNumber, asId } from "../../src/core/ids.ts";
import { readSecrets } from "../../src/platform/secrets.ts";
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

async function tagOf(renter: Renter, id: number, deployment?: string): Promise<string> {
  const outcome = await readSecrets(env);
  if (!outcome.ok) throw new Error(outcome.fault.message);
  const mark = deployment ?? (await deploymentMark(outcome.secrets));
  return formatTag({ deployment: mark, account: asId<AccountNumber>(renter.number), id, random: "abc234" });
}
const end = (service: ComputeService, kind: string, upstream_id: number, more: Json = {}) =>
  call("POST", `/compute/${service.id}/terminate`, { kind, upstream_id, ...more });
const reconcile = async (service: ComputeService): Promise<Json[]> =>
  (await done("POST", `/compute/${service.id}/reconcile`)).seen;

/** A seat with one of each sort: a live instance, an ended one, ours without a row, another gateway's, one by hand. */
async function crowded() {
  const service = await ComputeService.make();
  const renter = await Renter.make({ compute_upstream: service.id });
  await renter.launch();
  await renter.launch();
  await done("POST", `/accounts/${renter.id}/compute/stop`, { id: 1001 });
  await vi.waitFor(() => expect(service.changes()).toContain("POST /gpu-instances/2/terminate"), { timeout: 20_000 });
  const [lost, foreign] = [await tagOf(renter, 1001), await tagOf(renter, 1000, "abcdef")];
  service.add("gpu-instances", { name: lost, status: "running", hourly_rate_usd: 2, gpu_count: 4 });
  service.add("gpu-instances", { name: foreign, status: "running" });
  service.add("gpu-clusters", { name: lost, status: "running", gpu_count: 2, replicas: 3 });
  service.add("cloud-drives", { name: "by hand", status: "available" });
  service.add("container-images", { name: "by hand" });
  service.add("ssh-keys", { name: foreign });
  return { service, renter };
}

it("each thing that is seen says whose it is", async () => {
  const { service, renter } = await crowded();
  const seen = await reconcile(service);
  const ours = { account: renter.number };
  const none = { account: null, id: null };
  expect(seen).toMatchObject([
    { kind: "cluster", mark: "unknown", ...ours, id: null, gpus: 6, hourly_price_usd: null },
    { kind: "drive", mark: "unknown", ...none, status: "available", gpus: null },
    { kind: "image", mark: "unknown", ...none, status: null },
    { kind: "instance", mark: "live", ...ours, id: 1000, status: "running", hourly_cost_usd: 2, hourly_price_usd: 3 },
    { kind: "instance", mark: "ended", ...ours, id: 1001, status: "terminated" },
    { kind: "instance", mark: "unknown", ...ours, id: null, gpus: 4, hourly_cost_usd: 2, hourly_price_usd: null },
    { kind: "instance", mark: "foreign", ...none, status: "running" },
    { kind: "ssh_key", mark: "foreign", ...none },
  ]);
  const overview = (await done("GET", "/compute")).data.find(({ upstream }: Json) => upstream === service.id);
  expect(overview.seen).toEqual(seen);
});

it("our tag that no row has is told to the operator once while it is seen, and left alone", async () => {
  const lines = vi.spyOn(console, "log").mockImplementation(() => undefined);
  const told = () =>
    lines.mock.calls
      .map(([line]) => JSON.parse(String(line)))
      .filter(({ event }) => event === "compute_unknown_resource");
  const { service, renter } = await crowded();
  const before = service.changes();
  await reconcile(service);
  const expected = ["instance", "cluster"].map((kind) => ({ kind, upstream: service.id, account: renter.number }));
  expect(told()).toMatchObject(expected);
  // Another document of the same thing is no news.
  for (const thing of service.things["gpu-instances"] ?? []) if (thing.status === "running") thing.status = "preempted";
  await reconcile(service);
  expect(told()).toHaveLength(2);
  expect(service.changes()).toEqual(before);
});

it("what one upstream's lists say of a machine on another changes nothing there", async () => {
  const [liar, honest] = [await ComputeService.make(), await ComputeService.make()];
  const [other, renter] = [
    await Renter.make({ compute_upstream: liar.id }),
    await Renter.make({ compute_upstream: honest.id }),
  ];
  await other.launch();
  await renter.launch();
  await renter.launch();
  await reconcile(honest);
  // The lie has the machine's own id too.
  const { id = 0, name = "" } = honest.things["gpu-instances"]?.[1] ?? {};
  const over = { terminated_at: new Date().toISOString(), termination_reason: "failed" };
  expect(liar.add("gpu-instances", { name, status: "terminated", ...over })).toBe(id);
  liar.add("gpu-instances", { name, status: "running", hourly_rate_usd: 900 });
  const before = [honest.changes(), liar.changes()];
  const marks = (await reconcile(liar)).map(({ mark, id }) => [mark, id]);
  expect(marks).toEqual([
    ["live", 1000],
    ["unknown", null],
    ["unknown", null],
  ]);
  // A list of another kind has no say about it either.
  honest.add("cloud-drives", { id, name, status: "failed" });
  await reconcile(honest);
  const { data } = await done("GET", `/accounts/${renter.id}/compute`);
  const shown = data.map((one: Json) => [one.id, one.status, one.hourly_cost_usd, one.held_usd]);
  expect(shown.sort()).toEqual([1000, 1001].map((id) => [id, "running", 2, 3]));
  expect([honest.changes(), liar.changes()]).toEqual(before);
});

it.each([
  ["instance", "gpu-instances", "POST /gpu-instances/1/terminate"],
  ["cluster", "gpu-clusters", "DELETE /gpu-clusters/1"],
  ["drive", "cloud-drives", "DELETE /cloud-drives/1"],
  ["filesystem", "shared-filesystems", "DELETE /shared-filesystems/1"],
  ["image", "container-images", "DELETE /container-images/1"],
  ["ssh_key", "ssh-keys", "DELETE /ssh-keys/1"],
])("what is nobody's is ended: %s", async (kind, list, sent) => {
  const service = await ComputeService.make();
  service.add(list, { status: "running" });
  expect(await end(service, kind, 1)).toMatchObject({ status: 200, body: { kind, upstream_id: 1, ended: true } });
  expect(service.changes()).toEqual([sent]);
});

it("what an account has is its stop's to end, and what is over or not there is not ended", async () => {
  const { service } = await crowded();
  const before = service.changes();
  const live = await end(service, "instance", 1, { foreign: true });
  expect(live).toMatchObject(refusal(409, "compute_known", null));
  expect(live.body.error.message).toContain("1000");
  expect(await end(service, "instance", 2)).toMatchObject(refusal(409, "compute_ended", null));
  expect(await end(service, "instance", 99)).toMatchObject(refusal(404, "not_found", "instance"));
  expect(await end(service, "drive", 1)).toMatchObject(refusal(404, "not_found", "drive"));
  expect(await end(service, "ssh_key", 8)).toMatchObject(refusal(409, "compute_foreign", "foreign"));
  expect(service.changes()).toEqual(before);
  expect((await end(service, "instance", 3)).status).toBe(200);
  expect((await end(service, "ssh_key", 8, { foreign: true })).status).toBe(200);
  expect(service.changes().slice(before.length)).toEqual(["POST /gpu-instances/3/terminate", "DELETE /ssh-keys/8"]);
});

it("an upstream that refuses, is silent or unknown is said to the operator as it is", async () => {
  const service = await ComputeService.make();
  service.add("cloud-drives", { status: "in_use" });
  service.before = (asked) =>
    asked.startsWith("DELETE") && Response.json({ error: "It is currently attached." }, { status: 409 });
  const refused = await end(service, "drive", 1);
  expect(refused).toMatchObject(refusal(409, "upstream_refused", null));
  expect(refused.body.error.message).toContain("currently attached");
  service.before = (asked) => asked.startsWith("DELETE") && new Response("", { status: 500 });
  expect(await end(service, "drive", 1)).toMatchObject(refusal(503, "upstream_unanswered", null));
  service.before = () => new Response("", { status: 500 });
  expect(await end(service, "drive", 1)).toMatchObject(refusal(503, "upstream_not_listed", null));
  expect(await call("POST", "/compute/nobody/terminate", { kind: "drive", upstream_id: 1 })).toMatchObject(
    refusal(404, "not_found", "upstream"),
  );
  for (const [body, param] of [
    [{ kind: "pod", upstream_id: 1 }, "kind"],
    [{ kind: "drive" }, "upstream_id"],
    [{ kind: "drive", upstream_id: "1/../2" }, "upstream_id"],
    [{ kind: "drive", upstream_id: 1, colour: 1 }, "colour"],
  ] as const) {
    expect(await call("POST", `/compute/${service.id}/terminate`, body)).toMatchObject(
      refusal(400, "invalid_request_error", param),
    );
  }
});
