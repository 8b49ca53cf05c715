/** The sandbox's own calls: faults, the log of what was executed, the clock. */

export interface Execution {
  readonly id: number;
  readonly ended_ms: number | null;
  readonly path: string;
  readonly model: string | null;
  readonly region: string | null;
  readonly request_id: string | null;
  readonly status: number | null;
  readonly executed: boolean;
  readonly answered: boolean;
  readonly bytes_sent: number;
  readonly frames_sent: number;
  readonly closed_early: boolean;
  readonly usage: { readonly input_tokens?: number; readonly output_tokens?: number } | null;
}

export class Sandbox {
  readonly url: string;

  constructor(url: string) {
    this.url = url;
  }

  /** Every call of this model meets it, or as many as `times` says. */
  async fault(model: string, fault: Record<string, unknown>): Promise<void> {
    await this.faultAt({ model }, fault);
  }

  /** Every call at such a place. */
  async faultAt(
    match: { model?: string; region?: string; path?: string },
    fault: Record<string, unknown>,
  ): Promise<void> {
    await this.#call("POST", "/faults", { match, ...fault });
  }

  async clearFaults(): Promise<void> {
    await this.#call("DELETE", "/faults");
  }

  /** `fields`: kind and path, where it is no chat model. */
  async addInstance(
    instanceId: number,
    name: string,
    regions = ["us-east-1", "eu-west-1"],
    fields: { kind?: string; custom_api_path?: string } = {},
  ): Promise<void> {
    const pods = regions.map((region) => ({ region, healthy: true }));
    await this.#call("POST", "/instances", { instance_id: instanceId, name, account: "operator", pods, ...fields });
  }

  /** Takes a region down, or up again. */
  async setRegion(region: string, healthy: boolean): Promise<void> {
    await this.#call("POST", "/regions", { region, healthy });
  }

  async advance(ms: number): Promise<void> {
    await this.#call("POST", "/clock", { advance_ms: ms });
  }

  /** What was executed of these models, oldest first. */
  async executions(...models: string[]): Promise<Execution[]> {
    return this.#log("executions", "model", models);
  }

  /** Of all models. */
  allExecutions(): Promise<Execution[]> {
    return this.#rows("/executions");
  }

  /** Of all models, later than this one. */
  async executionsAfter(id: number): Promise<Execution[]> {
    return this.#rows(`/executions?after=${id}`);
  }

  /** Every call that came in, reads and refused ones too. */
  allCalls(): Promise<Execution[]> {
    return this.#rows("/calls");
  }

  /** Every call that came in for these models, refused ones too. */
  async calls(...models: string[]): Promise<Execution[]> {
    return this.#log("calls", "model", models);
  }

  /** What came in under these ids of the gateway's calls (`x-request-id`). */
  async callsOf(...ids: (string | null)[]): Promise<Execution[]> {
    const known = ids.filter((id) => id !== null);
    if (known.length < ids.length) throw new Error("an answer without x-request-id");
    return this.#log("calls", "request_id", known);
  }

  /** The sandbox picks: late in a run the whole log is megabytes. */
  async #log(which: "executions" | "calls", field: "model" | "request_id", values: string[]): Promise<Execution[]> {
    if (values.length === 0) return [];
    return this.#rows(`/${which}?${new URLSearchParams(values.map((value) => [field, value]))}`);
  }

  async #rows(path: string): Promise<Execution[]> {
    return (await this.#call<{ data: Execution[] }>("GET", path)).data;
  }

  async #call<Body>(method: string, path: string, body?: unknown): Promise<Body> {
    const response = await fetch(`${this.url}/_sandbox${path}`, {
      method,
      headers: { "content-type": "application/json" },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
    return (await response.json()) as Body;
  }
}
