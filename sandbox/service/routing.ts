/**
 * Which region serves a call: the contract's routing of platform models and of `<name>:<instance_id>`.
 *
 * An instance's deployments come from a cache that is refreshed every 10 s of the sandbox's clock. Pods that were
 * healthy then are tried in turn, starting where the last call stopped, until one is healthy now. A single-region
 * instance has no failover. Platform models run in every healthy region.
 */
import { FIRST_INSTANCES, type Instance, type ModelKind, PLATFORM_MODELS, type Pod, REGIONS } from "../catalog.ts";
import { done, type Outcome, refuse } from "../refusal.ts";

const INSTANCE_CACHE_MS = 10_000;
const INSTANCE_MODEL = /^(.+):(\d{1,15})$/;

/** What a call is to be routed to. */
export interface Wish {
  readonly account: string;
  readonly model: string;
  readonly kinds: readonly ModelKind[];
  /** The one region that may serve it; null: any. */
  readonly pinned: string | null;
  readonly nowMs: number;
}

interface Cached {
  readonly instance: Instance;
  /** Regions that were healthy when it was read. */
  readonly healthy: ReadonlySet<string>;
  readonly readAtMs: number;
}

export class Routing {
  readonly #sql: SqlStorage;
  readonly #instances = new Map<number, Instance>();
  readonly #regions = new Map<string, boolean>(REGIONS.map((region) => [region, true]));
  readonly #cache = new Map<number, Cached>();
  readonly #turns = new Map<string, number>();

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    for (const instance of FIRST_INSTANCES) this.#instances.set(instance.instance_id, instance);
    for (const { record } of sql.exec<{ record: string }>("SELECT record FROM instances")) {
      const instance = JSON.parse(record) as Instance;
      this.#instances.set(instance.instance_id, instance);
    }
    for (const row of sql.exec<{ region: string; healthy: number }>("SELECT * FROM regions")) {
      this.#regions.set(row.region, row.healthy === 1);
    }
  }

  instances(): Instance[] {
    return [...this.#instances.values()].sort((a, b) => a.instance_id - b.instance_id);
  }

  regions(): Pod[] {
    return [...this.#regions].map(([region, healthy]) => ({ region, healthy }));
  }

  putInstance(instance: Instance): void {
    this.#instances.set(instance.instance_id, instance);
    this.#sql.exec(
      "INSERT OR REPLACE INTO instances (instance_id, record) VALUES (?, ?)",
      instance.instance_id,
      JSON.stringify(instance),
    );
  }

  putRegion(region: string, healthy: boolean): void {
    this.#regions.set(region, healthy);
    this.#sql.exec("INSERT OR REPLACE INTO regions (region, healthy) VALUES (?, ?)", region, healthy ? 1 : 0);
  }

  /** The region that serves this model now, or why none does. */
  route(wish: Wish): Outcome<string> {
    if (wish.pinned !== null && !this.#regions.has(wish.pinned)) return unknownRegion(wish.pinned);
    const instance = INSTANCE_MODEL.exec(wish.model);
    if (instance) return this.#routeInstance(wish, instance[1] ?? "", Number(instance[2]));
    const kind = PLATFORM_MODELS.get(wish.model);
    if (kind === undefined) return unknownModel(wish.model);
    if (!wish.kinds.includes(kind)) return wrongKind(wish.model);
    return this.#take(wish, this.#everyRegion());
  }

  /**
   * The region of a call without a model, such as a list or a poll. `home`: the region where its stored thing lives.
   */
  routeHome(pinned: string | null, home: string | null): Outcome<string> {
    if (pinned !== null && !this.#regions.has(pinned)) return unknownRegion(pinned);
    if (home !== null) return this.#regions.get(home) ? done(home) : noRegion(home);
    return this.#take({ model: "", pinned }, this.#everyRegion());
  }

  /** A custom instance and its region, by id. The key must belong to the account that owns it. */
  routeCustom(account: string, id: number, pinned: string | null, nowMs: number): Outcome<[Instance, string]> {
    const instance = this.#instances.get(id);
    if (instance?.kind !== "custom") return unknownModel(String(id));
    const model = `${instance.name}:${id}`;
    const routed = this.route({ account, model, kinds: ["custom"], pinned, nowMs });
    return routed.ok ? done([instance, routed.value]) : routed;
  }

  #routeInstance(wish: Wish, name: string, id: number): Outcome<string> {
    const instance = this.#instances.get(id);
    if (!instance || instance.name !== name) return unknownModel(wish.model);
    if (instance.account !== wish.account) {
      const message = `The API key's account does not own instance ${id}.`;
      return refuse(401, "invalid_api_key", message, "model");
    }
    if (!wish.kinds.includes(instance.kind)) return wrongKind(wish.model);
    const cached = this.#lookUp(instance, wish.nowMs);
    return this.#take(
      wish,
      cached.instance.pods.map(({ region }) => region).filter((region) => cached.healthy.has(region)),
    );
  }

  #lookUp(instance: Instance, nowMs: number): Cached {
    const known = this.#cache.get(instance.instance_id);
    if (known && nowMs - known.readAtMs < INSTANCE_CACHE_MS) return known;
    const healthy = instance.pods.map(({ region }) => region).filter((region) => this.#serves(instance, region));
    const cached = { instance, healthy: new Set(healthy), readAtMs: nowMs };
    this.#cache.set(instance.instance_id, cached);
    return cached;
  }

  #serves(instance: Instance, region: string): boolean {
    const pod = instance.pods.find((one) => one.region === region);
    return Boolean(pod?.healthy && this.#regions.get(region));
  }

  /** Round robin over the candidates, skipping those that turn out to be down. */
  #take({ model, pinned }: Pick<Wish, "model" | "pinned">, candidates: readonly string[]): Outcome<string> {
    const allowed = pinned === null ? candidates : candidates.filter((region) => region === pinned);
    const turn = this.#turns.get(model) ?? 0;
    const instance = this.#instances.get(Number(INSTANCE_MODEL.exec(model)?.[2]));
    for (let step = 0; step < allowed.length; step++) {
      const region = allowed[(turn + step) % allowed.length];
      if (region === undefined) continue;
      if (!(instance ? this.#serves(instance, region) : this.#regions.get(region))) continue;
      this.#turns.set(model, turn + step + 1);
      return done(region);
    }
    return noRegion(pinned);
  }

  #everyRegion(): string[] {
    return [...this.#regions].filter(([, healthy]) => healthy).map(([region]) => region);
  }
}

const unknownModel = (model: string) =>
  refuse(404, "model_not_found", `The model \`${model}\` does not exist or is not running.`, "model");
const unknownRegion = (region: string) => refuse(404, "not_found", `There is no region \`${region}\`.`);
const wrongKind = (model: string) =>
  refuse(400, "invalid_request", `The model \`${model}\` does not support this endpoint.`, "model");
const noRegion = (region: string | null) =>
  refuse(503, "no_healthy_region", region ? `No healthy pod in ${region}.` : "No healthy region for the model.");
