/**
 * The compute side of the sandbox, as its operator sees it: accounts, regions, forced states, faults, and the judge.
 */

/** What ran, of one machine. */
interface MachineExecution {
  readonly id: number;
  readonly kind: "instance" | "cluster";
  readonly account: string;
  readonly name: string | null;
  readonly state: string;
  readonly reason: string | null;
  readonly gpus: number;
  readonly replicas: number;
  readonly hours: number | null;
  readonly image: string;
  readonly started_ms: number | null;
  readonly end_asked_ms: number | null;
  readonly ended_ms: number | null;
  readonly stopped_ms: number | null;
  readonly ms: number;
  readonly charged_usd: number;
  readonly pulled_as: { readonly username: string; readonly secret: string } | null;
}

/** What was kept, of one drive or filesystem. */
interface StorageExecution {
  readonly id: number;
  readonly kind: "drive" | "filesystem";
  readonly name: string;
  readonly mount_path: string | null;
  readonly state: string;
  readonly days_charged: number;
}

/** A call that came in. */
interface ComputeCall {
  readonly id: number;
  readonly at_ms: number;
  readonly real_ms: number;
  readonly kind: "control" | "service";
  readonly method: string;
  readonly path: string;
  readonly status: number | null;
  readonly executed: boolean;
  readonly resource: number | null;
  readonly pod_headers: Readonly<Record<string, string>> | null;
  readonly pod_ended: "whole" | "left" | null;
}

export class ComputeSandbox {
  readonly #url: string;

  constructor(sandboxUrl: string) {
    this.#url = `${sandboxUrl}/_sandbox/compute`;
  }

  /** Adds or changes an account of the service. */
  account(account: string, fields: Record<string, unknown>): Promise<unknown> {
    return this.#call("POST", "/accounts", { account, ...fields });
  }

  region(id: string, fields: Record<string, unknown>): Promise<unknown> {
    return this.#call("POST", "/regions", { id, ...fields });
  }

  /** Every call of the account meets it, or as many as `times` says. */
  fault(
    account: string,
    fault: Record<string, unknown>,
    match: { method?: string; path?: string } = {},
  ): Promise<unknown> {
    return this.#call("POST", "/faults", { match: { account, ...match }, ...fault });
  }

  clearFaults(account: string): Promise<unknown> {
    return this.#call("DELETE", `/faults?account=${account}`);
  }

  force(id: number, force: string): Promise<unknown> {
    return this.#call("POST", `/resources/${id}`, { force });
  }

  /** Moves the account's clock only. */
  advance(account: string, advanceMs: number): Promise<unknown> {
    return this.#call("POST", "/clock", { account, advance_ms: advanceMs });
  }

  /** Of machines. */
  async executions(account: string): Promise<MachineExecution[]> {
    const all = await this.#executions(account);
    return all.filter((one): one is MachineExecution => one.kind === "instance" || one.kind === "cluster");
  }

  /** Of drives and filesystems. */
  async storage(account: string): Promise<StorageExecution[]> {
    const all = await this.#executions(account);
    return all.filter((one): one is StorageExecution => one.kind === "drive" || one.kind === "filesystem");
  }

  async #executions(account: string): Promise<(MachineExecution | StorageExecution)[]> {
    return (
      await this.#call<{ data: (MachineExecution | StorageExecution)[] }>("GET", `/executions?account=${account}`)
    ).data;
  }

  async calls(account: string): Promise<ComputeCall[]> {
    return (await this.#call<{ data: ComputeCall[] }>("GET", `/calls?account=${account}`)).data;
  }

  async #call<Body>(method: string, path: string, body?: unknown): Promise<Body> {
    const response = await fetch(`${this.#url}${path}`, {
      method,
      headers: { "content-type": "application/json" },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
    return (await response.json()) as Body;
  }
}
