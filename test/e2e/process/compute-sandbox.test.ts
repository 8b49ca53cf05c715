/** The sandbox's compute side over real connections: what tests inside workerd cannot see. */
import { beforeAll, expect, test } from "vitest";
import { ComputeSandbox } from "../../support/compute-sandbox.ts";
import { unique } from "../../support/operator.ts";
import { world } from "../../support/world.ts";

const { sandboxUrl } = world();
const sandbox = new ComputeSandbox(sandboxUrl);
const account = unique("seat");
const region = unique("region");
const headers = { authorization: `Bearer key-${account}`, "content-type": "application/json" };

beforeAll(async () => {
  await sandbox.account(account, { balance_usd: 100, keys: [{ key: `key-${account}` }] });
  await sandbox.region(region, { gpu_type: `GPU ${region}`, hourly_rate_usd: 3 });
});

const send = (method: string, path: string, body?: unknown) =>
  fetch(`${sandboxUrl}${path}`, { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) });
const launch = (name: string) =>
  send("POST", "/gpu-instances", {
    name,
    region_id: region,
    gpu_type: `GPU ${region}`,
    gpu_count: 1,
    container_image: "nginx:1",
    service_port: 80,
  });

test("a lost answer closes the connection without a byte, after the work; a reset without the work", async () => {
  await sandbox.fault(account, { fault: "lost_answer", times: 1 }, { method: "POST" });
  await expect(launch("lost")).rejects.toThrow("fetch failed");
  await sandbox.fault(account, { fault: "reset", times: 1 }, { method: "POST" });
  await expect(launch("reset")).rejects.toThrow("fetch failed");
  expect((await sandbox.executions(account)).map(({ name }) => name)).toEqual(["lost"]);
  expect((await sandbox.calls(account)).map(({ executed }) => executed)).toEqual([true, false]);
});

test("an instance runs, serves 20 MB both ways and a WebSocket, and is stopped and charged", async () => {
  const launched = await launch("served");
  expect(launched.status).toBe(202);
  const { id } = (await launched.json()) as { id: number };
  await sandbox.advance(account, 3_600_000);
  const service = `/gpu-instances/${id}/service`;

  const size = 20_000_000;
  const down = await send("GET", `${service}/bytes/${size}`);
  expect(down.headers.get("content-length")).toBe(String(size));
  expect((await down.arrayBuffer()).byteLength).toBe(size);
  const up = await fetch(`${sandboxUrl}${service}/`, { method: "PUT", headers, body: new Uint8Array(size) });
  expect(await up.json()).toMatchObject({ method: "PUT", body_bytes: size });

  const socket = new WebSocket(`${sandboxUrl.replace("http", "ws")}${service}/live`, { headers } as never);
  const got: string[] = [];
  const code = await new Promise<number>((resolve) => {
    socket.addEventListener("message", ({ data }) => got.push(String(data)));
    socket.addEventListener("open", () => {
      socket.send("hello");
      socket.send("close:4001");
    });
    socket.addEventListener("close", (event) => resolve(event.code));
  });
  expect([code, got[1]]).toEqual([4_001, "hello"]);
  expect(got[0]).not.toContain(`key-${account}`);

  expect((await send("POST", `/gpu-instances/${id}/terminate`)).status).toBe(202);
  await sandbox.advance(account, 1_000);
  const row = (await sandbox.executions(account)).find((one) => one.id === id);
  expect(row).toMatchObject({ reason: "user", state: "stopped" });
  expect(row?.charged_usd).toBeCloseTo((3 * (row?.ms ?? 0)) / 3_600_000, 6);
});
