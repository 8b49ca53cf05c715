/** A tenant who rents machines: an account with a seat on an upstream, in a region of its own. */
import { ComputeSandbox } from "../compute-sandbox.ts";
import { eventually } from "../eventually.ts";
import { type Operator, unique } from "../operator.ts";
import type { Tenant } from "../tenant.ts";

/** USD per GPU-hour. */
export const PRICE = 3;

export interface Instance {
  readonly id: number;
  readonly name: string;
  readonly status: string;
  readonly termination_reason: string | null;
  readonly started_at: string | null;
  readonly created_by_user_id: number | null;
}

export interface StorageShown {
  readonly id: number;
  readonly name: string;
  readonly status: string;
  readonly size_gb: number;
  readonly mount_path?: string;
  readonly created_at: string;
}
type StoragePath = "/cloud-drives" | "/shared-filesystems";

interface Process {
  readonly operator: Operator;
  readonly sandboxUrl: string;
}

export class Renter {
  readonly tenant: Tenant;
  /** The upstream, and the sandbox's account of the same name. */
  readonly seat: string;
  readonly region: string;
  readonly sandbox: ComputeSandbox;

  private constructor({ sandboxUrl }: Process, tenant: Tenant, seat: string, region: string) {
    this.tenant = tenant;
    this.seat = seat;
    this.region = region;
    this.sandbox = new ComputeSandbox(sandboxUrl);
  }

  /** On an upstream of its own; `fields` of the upstream. */
  static async make(process: Process, balanceUsd: number, fields: Record<string, unknown> = {}): Promise<Renter> {
    const { operator, sandboxUrl } = process;
    const seat = unique("seat");
    const sandbox = new ComputeSandbox(sandboxUrl);
    await sandbox.account(seat, { balance_usd: 10_000, keys: [{ key: `key-${seat}` }] });
    await operator.call("PUT", `/upstreams/${seat}`, { base_url: sandboxUrl, api_key: `key-${seat}`, ...fields });
    const region = unique("region");
    await sandbox.region(region, { gpu_type: `GPU ${region}`, hourly_rate_usd: 2 });
    const prices = {
      gpu_hours: { cost_usd: 2, price_usd: PRICE },
      interruptible_gpu_hours: { cost_usd: 1, price_usd: PRICE / 2 },
    };
    const model = encodeURIComponent(`gpu/${encodeURIComponent(`GPU ${region}`)}`);
    await operator.call("PUT", `/models/${model}`, { kind: "gpu", prices });
    return Renter.on(process, seat, region, balanceUsd);
  }

  static async on(process: Process, seat: string, region: string, balanceUsd: number): Promise<Renter> {
    const account = { balance_usd: balanceUsd, compute_enabled: true, compute_upstream: seat };
    const tenant = await process.operator.tenant(account, { scopes: ["compute"], user: 7, role: "owner" });
    return new Renter(process, tenant, seat, region);
  }

  async send<Body = Instance>(method: string, path: string, body?: unknown, headers: Record<string, string> = {}) {
    const init = { method, headers: { "content-type": "application/json", ...headers } };
    const text = typeof body === "string" ? body : JSON.stringify(body);
    const response = await this.tenant.fetch(path, { ...init, ...(body !== undefined && { body: text }) });
    const answer = await response.text();
    return { status: response.status, headers: response.headers, body: (answer ? JSON.parse(answer) : null) as Body };
  }

  launch(fields: Record<string, unknown> = {}, headers: Record<string, string> = {}) {
    const { region } = this;
    const machine = { region_id: region, gpu_type: `GPU ${region}`, gpu_count: 1, container_image: "ubuntu:24" };
    return this.send("POST", "/gpu-instances", { ...machine, name: "mine", ...fields }, headers);
  }

  drive(fields: Record<string, unknown> = {}) {
    const body = { name: "disk", region_id: this.region, size_gb: 50, ...fields };
    return this.send<StorageShown>("POST", "/cloud-drives", body);
  }

  filesystem(fields: Record<string, unknown> = {}) {
    const body = { name: "data", region_id: this.region, size_gb: 100, ...fields };
    return this.send<StorageShown>("POST", "/shared-filesystems", body);
  }

  async storage(path: StoragePath, id: number): Promise<StorageShown | undefined> {
    return (await this.send<StorageShown[]>("GET", path)).body.find((one) => one.id === id);
  }

  async untilStorage(path: StoragePath, id: number, status: string): Promise<StorageShown> {
    const probe = async () => {
      const shown = await this.storage(path, id);
      return shown?.status === status ? shown : undefined;
    };
    return eventually(`${path} ${id} is ${status}`, probe, { withinMs: 40_000, everyMs: 1_200 });
  }

  async get(id: number): Promise<Instance> {
    return (await this.send<{ instance: Instance }>("GET", `/gpu-instances/${id}`)).body.instance;
  }

  /** Polls as the contract says: every second or so, far below 60 a minute. */
  async until(id: number, status: string): Promise<Instance> {
    return eventually(
      `${status}`,
      async () => {
        const instance = await this.get(id);
        return instance.status === status ? instance : undefined;
      },
      { withinMs: 40_000, everyMs: 1_500 },
    );
  }
}
