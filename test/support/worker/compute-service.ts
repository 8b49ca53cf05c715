/** A made-up upstream account for compute behind `fetch`: lists, launches, ends. Each has a host of its own. */
import { exports } from "cloudflare:workers";
import { vi } from "vitest";
import { done, type Json } from "./operator.ts";

interface Thing {
  readonly id: number;
  readonly name: string;
  status?: string;
  readonly [field: string]: unknown;
}

const services = new Map<string, ComputeService>();
let made = 0;

/** Call it before each test; `vi.restoreAllMocks()` ends it. */
export function serveCompute(): void {
  vi.spyOn(globalThis, "fetch").mockImplementation(async (input, init) => {
    const request = new Request(input as RequestInfo, init);
    const service = services.get(new URL(request.url).host);
    if (!service) throw new Error("Network connection lost.");
    return service.answer(request);
  });
}

export class ComputeService {
  readonly id = `seat-${++made}`;
  readonly host = `${this.id}.example`;
  readonly calls: string[] = [];
  readonly things: Record<string, Thing[]> = {};
  /** Runs before a call is answered. */
  before: (call: string, request: Request) => Promise<unknown> | unknown = () => undefined;
  #nextId = 1;

  /** Registers it as an upstream of the same name. */
  static async make(fields: Json = {}): Promise<ComputeService> {
    const service = new ComputeService();
    services.set(service.host, service);
    await done("PUT", `/upstreams/${service.id}`, { base_url: `https://${service.host}`, api_key: "k", ...fields });
    return service;
  }

  /** The same account at another address too. */
  alsoAt(host: string): void {
    services.set(host, this);
  }

  add(list: string, fields: Partial<Thing> = {}): number {
    const thing = { id: this.#nextId++, name: "by hand", ...fields };
    this.things[list] = [...(this.things[list] ?? []), thing];
    return thing.id;
  }

  /** Calls that are no reads. */
  changes(): string[] {
    return this.calls.filter((call) => !call.startsWith("GET "));
  }

  async answer(request: Request): Promise<Response> {
    const { pathname } = new URL(request.url);
    const call = `${request.method} ${pathname}`;
    this.calls.push(call);
    const refused = await this.before(call, request);
    if (refused instanceof Response) return refused;
    if (call === "GET /billing/balance") return Response.json({ balance: 1_000 });
    if (call === "GET /gpu-instances/availability") {
      return Response.json([{ id: "r", name: "r", gpu_type: "H100", gpu_per_node: 8, available: 8 }]);
    }
    const [, list = "", id, verb] = pathname.split("/");
    if (request.method === "GET" && !id) return Response.json(this.things[list] ?? []);
    if (request.method === "POST" && !id) {
      const { name, ssh_public_key } = (await request.json()) as { name: string; ssh_public_key?: string };
      // As the contract says: a launch saves its key.
      if (ssh_public_key) this.add("ssh-keys", { name, public_key: ssh_public_key });
      this.add(list, { name, status: "running", started_at: new Date().toISOString(), hourly_rate_usd: 2 });
      return Response.json(this.things[list]?.at(-1), { status: 202 });
    }
    const thing = this.things[list]?.find((one) => one.id === Number(id));
    if (!thing) return Response.json({ error: "none" }, { status: 404 });
    if (request.method === "GET") return Response.json(thing);
    if (verb === "terminate") thing.status = "terminated";
    else this.things[list] = (this.things[list] ?? []).filter((one) => one !== thing);
    return Response.json(thing, { status: 202 });
  }
}

/** An account with credit that may rent. */
export class Renter {
  readonly id: string;
  readonly number: number;
  readonly key: string;

  private constructor(id: string, number: number, key: string) {
    this.id = id;
    this.number = number;
    this.key = key;
  }

  static async make(fields: Json = {}): Promise<Renter> {
    const id = `renter-${++made}`;
    const { number } = await done("POST", "/accounts", {
      id,
      name: id,
      balance_usd: 100,
      compute_enabled: true,
      ...fields,
    });
    const { key } = await done("POST", `/accounts/${id}/keys`, { name: "k", scopes: ["compute", "inference"] });
    return new Renter(id, number, key);
  }

  async ask(method: string, path: string, body?: Json): Promise<{ status: number; body: Json }> {
    const headers = { authorization: `Bearer ${this.key}`, "content-type": "application/json" };
    const init = { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) };
    const response = await exports.default.fetch(new Request(`http://gateway.test${path}`, init));
    return { status: response.status, body: await response.json() };
  }

  launch(fields: Json = {}): Promise<{ status: number; body: Json }> {
    const body = { region_id: "r", gpu_type: "H100", gpu_count: 1, container_image: "ubuntu:24", ...fields };
    return this.ask("POST", "/gpu-instances", body);
  }

  async seat(): Promise<string | null> {
    return (await done("GET", `/accounts/${this.id}`)).compute_upstream;
  }
}
