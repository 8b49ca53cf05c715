/**
 * How the tests talk to the sandbox's compute side: as an account of its own in a region of its own, and as its judge.
 */
import { expect } from "vitest";
import type { ComputeCall } from "../../../sandbox/compute/call-log.ts";
import type { ComputeExecution, MachineExecution, StorageExecution } from "../../../sandbox/compute/executions.ts";
import { call, type Json, json, post } from "./sandbox-client.ts";

export const HOUR_MS = 3_600_000;
export const DAY_MS = 24 * HOUR_MS;
/** What the sandbox takes to start pods, and a little more. */
export const STARTED_MS = 2_100;
export const STOPPED_MS = 1_100;

let made = 0;

/** Of one GPU and hour in the region. */
const RATE_USD = 2;

export class Tenant {
  readonly account: string;
  readonly region: string;
  readonly gpuType: string;
  readonly key: string;

  private constructor(name: string) {
    this.account = name;
    this.region = `region-${name}`;
    this.gpuType = `GPU ${name}`;
    this.key = `key-${name}`;
  }

  /** With 1,000 USD, an owner's key and 16 GPUs that nobody else has. */
  static async make({ balance_usd = 1_000, region = {} as object, account = {} as object } = {}): Promise<Tenant> {
    const tenant = new Tenant(`t${++made}`);
    await json(
      post("/_sandbox/compute/regions", {
        id: tenant.region,
        gpu_type: tenant.gpuType,
        gpu_per_node: 8,
        node_count: 2,
        hourly_rate_usd: RATE_USD,
        interruptible_hourly_rate_usd: 1,
        drive_gb_day_usd: 0.01,
        filesystem_gb_day_usd: 0.02,
        ...region,
      }),
      201,
    );
    await tenant.set({ balance_usd, keys: [{ key: tenant.key, user: 7 }], ...account });
    return tenant;
  }

  set(fields: object): Promise<Json> {
    return json(post("/_sandbox/compute/accounts", { account: this.account, ...fields }), 201);
  }

  async get(path: string, status = 200, key = this.key): Promise<Json> {
    return json(call(path, {}, key), status);
  }

  async send(method: string, path: string, body: unknown, status: number, key = this.key): Promise<Json> {
    const text = typeof body === "string" ? body : JSON.stringify(body);
    const init = { method, ...(body !== undefined && { body: text }) };
    const response = await call(path, { ...init, headers: { "content-type": "application/json" } }, key);
    if (status !== 204) return json(response, status);
    expect([response.status, await response.text()]).toEqual([204, ""]);
    return undefined;
  }

  post(path: string, body: unknown, status: number, key?: string): Promise<Json> {
    return this.send("POST", path, body, status, key);
  }

  /** The text of a refusal. */
  async refused(status: number, method: string, path: string, body?: unknown, key?: string): Promise<string> {
    const answer = await this.send(method, path, body, status, key);
    expect(Object.keys(answer)).toEqual(["error"]);
    expect(answer.error).toMatch(/\w/);
    return answer.error;
  }

  instance(fields: object = {}): object {
    return {
      region_id: this.region,
      gpu_type: this.gpuType,
      gpu_count: 1,
      container_image: "platform/pytorch:2.9",
      ...fields,
    };
  }

  cluster(fields: object = {}): object {
    return {
      region_id: this.region,
      gpu_count: 1,
      replicas: 2,
      container_image: "platform/pytorch:2.9",
      estimated_duration_hours: 2,
      ...fields,
    };
  }

  launch(fields: object = {}): Promise<Json> {
    return this.post("/gpu-instances", this.instance(fields), 202);
  }

  launchCluster(fields: object = {}): Promise<Json> {
    return this.post("/gpu-clusters", this.cluster(fields), 202);
  }

  /** An instance that runs. */
  async running(fields: object = {}): Promise<Json> {
    const { id } = await this.launch(fields);
    await this.advance(STARTED_MS);
    const { instance } = await this.get(`/gpu-instances/${id}`);
    expect(instance.status).toBe("running");
    return instance;
  }

  async runningCluster(fields: object = {}): Promise<Json> {
    const { id } = await this.launchCluster(fields);
    await this.advance(STARTED_MS);
    return this.get(`/gpu-clusters/${id}`);
  }

  async drive(fields: object = {}): Promise<Json> {
    const body = { name: `drive-${++made}`, region_id: this.region, size_gb: 50, ...fields };
    const drive = await this.post("/cloud-drives", body, 202);
    await this.advance(STOPPED_MS);
    return drive;
  }

  async filesystem(fields: object = {}): Promise<Json> {
    const body = { name: `fs-${++made}`, region_id: this.region, size_gb: 100, ...fields };
    const filesystem = await this.post("/shared-filesystems", body, 202);
    await this.advance(STOPPED_MS);
    return filesystem;
  }

  /** Its own clock only; other tests keep theirs. */
  async advance(advance_ms: number): Promise<void> {
    await json(post("/_sandbox/compute/clock", { advance_ms, account: this.account }));
  }

  /** So that the calls of this minute do not count in the next. */
  nextMinute(): Promise<void> {
    return this.advance(60_000);
  }

  force(id: number, force: string, status = 200): Promise<Json> {
    return json(post(`/_sandbox/compute/resources/${id}`, { force }), status);
  }

  fault(fault: string, fields: object = {}, match: object = {}): Promise<Json> {
    const body = { match: { account: this.account, ...match }, fault, ...fields };
    return json(post("/_sandbox/compute/faults", body), 201);
  }

  async balance(): Promise<number> {
    return (await this.get("/billing/balance")).balance;
  }

  /** All that it has, what is held included, and what is held. */
  async money(): Promise<{ balance: number; held: number }> {
    const { data } = await json(call("/_sandbox/compute/accounts"));
    const own = data.find(({ account }: { account: string }) => account === this.account);
    return { balance: own.balance_usd, held: own.held_usd };
  }

  async executions(): Promise<ComputeExecution[]> {
    return (await json(call(`/_sandbox/compute/executions?account=${this.account}`))).data;
  }

  async machine(id: number): Promise<MachineExecution> {
    return (await this.executions()).find((one) => one.id === id) as MachineExecution;
  }

  async storage(id: number): Promise<StorageExecution> {
    return (await this.executions()).find((one) => one.id === id) as StorageExecution;
  }

  async calls(kind = "control"): Promise<ComputeCall[]> {
    return (await json(call(`/_sandbox/compute/calls?account=${this.account}&kind=${kind}`))).data;
  }
}

export const listed = (list: Json, id: number): Json => list.find((one: { id: number }) => one.id === id);
