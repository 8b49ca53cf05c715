/**
 * Machines that serve: a seat whose service paths were checked, and a tenant on it with a running instance or cluster.
 */
import { ComputeSandbox } from "../compute-sandbox.ts";
import { eventually } from "../eventually.ts";
import { type Operator, unique } from "../operator.ts";
import type { Tenant } from "../tenant.ts";

interface At {
  readonly operator: Operator;
  readonly sandboxUrl: string;
}

interface Launched {
  readonly id: number;
  readonly status: string;
  readonly endpoint_url: string | null;
}

const GPUS = { gpu_count: 1, container_image: "echo:1", service_port: 8000 };

/** An upstream account for compute, with a control key, a service key and an echo of the operator's own. */
export class Seat {
  readonly operator: Operator;
  readonly sandbox: ComputeSandbox;
  readonly id: string;
  readonly region: string;
  readonly baseUrl: string;
  /** The upstream's id of the operator's own instance. */
  echo = 0;
  readonly #sandboxUrl: string;
  #checked = true;

  private constructor({ operator, sandboxUrl }: At, baseUrl: string) {
    this.operator = operator;
    this.sandbox = new ComputeSandbox(sandboxUrl);
    this.#sandboxUrl = sandboxUrl;
    this.baseUrl = baseUrl;
    this.id = unique("seat");
    this.region = unique("region");
  }

  get controlKey(): string {
    return `control-${this.id}`;
  }

  get serviceKey(): string {
    return `service-${this.id}`;
  }

  /**
   * `baseUrl`: where the gateway finds it, if not at the sandbox itself. Service paths are on with its tenant, if
   * `checked`.
   */
  static async make(at: At, { baseUrl = at.sandboxUrl, checked = true, fields = {} } = {}): Promise<Seat> {
    const seat = new Seat(at, baseUrl);
    const keys = [{ key: seat.controlKey }, { key: seat.serviceKey }];
    await seat.sandbox.account(seat.id, { balance_usd: 10_000, keys });
    await seat.sandbox.region(seat.region, { gpu_type: `GPU ${seat.region}`, hourly_rate_usd: 2 });
    const model = encodeURIComponent(`gpu/${encodeURIComponent(`GPU ${seat.region}`)}`);
    await at.operator.call("PUT", `/models/${model}`, {
      kind: "gpu",
      prices: { gpu_hours: { cost_usd: 2, price_usd: 3 } },
    });
    await at.operator.call("PUT", `/upstreams/${seat.id}`, {
      base_url: baseUrl,
      api_key: seat.controlKey,
      service_api_key: seat.serviceKey,
      ...fields,
    });
    seat.#checked = checked;
    return seat;
  }

  /** Launched at the service itself, as an operator does. */
  async #launchEcho(): Promise<number> {
    const response = await fetch(`${this.#sandboxUrl}/gpu-instances`, {
      method: "POST",
      headers: { authorization: `Bearer ${this.controlKey}`, "content-type": "application/json" },
      body: JSON.stringify({ ...GPUS, name: "echo", region_id: this.region, gpu_type: `GPU ${this.region}` }),
    });
    const { id } = (await response.json()) as { id: number };
    await this.sandbox.advance(this.id, 3_000);
    return id;
  }

  async check(): Promise<Record<string, unknown>> {
    if (this.echo === 0) this.echo = await this.#launchEcho();
    return this.operator.call("POST", `/upstreams/${this.id}/check`, { echo: this.echo });
  }

  /** A tenant with its compute here. A seat is taken while nothing runs there; the echo comes after. */
  async tenant(): Promise<Tenant> {
    const account = { balance_usd: 1_000, compute_enabled: true, compute_upstream: this.id };
    const tenant = await this.operator.tenant(account, { scopes: ["compute"] });
    if (this.#checked) await this.check();
    return tenant;
  }

  /** Gives the path of a running machine of the tenant, without a slash at its end. */
  async serve(tenant: Tenant, kind: "instance" | "cluster" = "instance", fields: object = {}): Promise<string> {
    const path = `/gpu-${kind}s`;
    const of =
      kind === "instance"
        ? { ...GPUS, gpu_type: `GPU ${this.region}` }
        : { ...GPUS, replicas: 2, estimated_duration_hours: 1 };
    const response = await tenant.fetch(path, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ ...of, region_id: this.region, ...fields }),
    });
    if (response.status !== 202) throw new Error(await response.text());
    const { id } = (await response.json()) as Launched;
    await this.sandbox.advance(this.id, 3_000);
    await eventually("it runs", async () => {
      await this.operator.call("POST", `/compute/${this.id}/reconcile`);
      const shown = (await (await tenant.fetch(`${path}/${id}`)).json()) as Launched & { instance?: Launched };
      return (shown.instance ?? shown).status === "running";
    });
    return `${path}/${id}/service`;
  }
}
