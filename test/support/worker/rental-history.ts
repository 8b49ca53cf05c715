/**
 * A random history of tenants who rent machines on upstreams that fail in every way, and in the end its judgement.
 */
import { expect } from "vitest";
import type { MachineExecution } from "../../../sandbox/compute/executions.ts";
import { pick, type Random, streamOf } from "../../soak/random.ts";
import { Fleet, type Renter } from "./fleet.ts";
import { type CallFault, SERVICE_URL } from "./memory-service.ts";
import { call, done, type Json } from "./operator.ts";
import { RentalJudge, type Rented } from "./rental-judge.ts";

const NANO = 1_000_000_000;

interface Region {
  readonly id: string;
  readonly priceUsd: number;
}
/** One whose price of a millisecond is whole, one that is always rounded. */
const REGIONS: readonly (Region & { readonly costUsd: number })[] = [
  { id: "even", costUsd: 2, priceUsd: 3.6 },
  { id: "odd", costUsd: 1.5, priceUsd: 2.999999938 },
];
const FORCES = [
  "preempted",
  "preempted",
  "resumed",
  "resumed",
  "failed",
  "lost",
  "stuck",
  "unstuck",
  "terminated",
] as const;

export class RentalHistory {
  readonly fleet = new Fleet();
  readonly #random: Random;
  readonly #rented: Rented[] = [];
  /** Answers that have not come. */
  readonly #waiting: Promise<void>[] = [];
  readonly #names: { readonly even: string; readonly odd: string };
  readonly #seed: number;
  #foreign = 0;
  #credits = 0;
  /** What happened, for the one who looks into a failure. */
  readonly story: string[] = [];

  constructor(seed: number) {
    this.#seed = seed;
    this.#random = streamOf(seed, "rentals");
    this.#names = { even: `even-${seed}`, odd: `odd-${seed}` };
  }

  /** Two tenants on a shared upstream, two with one each, and a machine of the operator's own. */
  async begin(): Promise<void> {
    const { fleet } = this;
    for (const { id, costUsd, priceUsd } of REGIONS) await fleet.region(`${id}-${this.#seed}`, costUsd, priceUsd);
    const seats = ["shared", "one", "two"].map((name) => `${name}-${this.#seed}`);
    for (const seat of seats) await fleet.seat(seat, seat.startsWith("shared"));
    for (const [index, seat] of [seats[0], seats[0], seats[1], seats[2]].entries()) {
      await fleet.renter(`renter-${this.#seed}-${index}`, seat ?? "", 30 + 10 * index);
    }
    const foreign = await fleet.service.answer(
      new Request(`${SERVICE_URL}/gpu-instances`, {
        method: "POST",
        headers: { authorization: `Bearer key-${seats[0]}` },
        body: JSON.stringify({
          name: "by hand",
          region_id: this.#names.even,
          gpu_type: `GPU ${this.#names.even}`,
          gpu_count: 1,
          container_image: "ubuntu:24",
        }),
      }),
    );
    this.#foreign = ((await foreign.json()) as { id: number }).id;
  }

  async act(): Promise<void> {
    const acts: readonly [number, () => Promise<unknown>][] = [
      [14, () => this.#launch()],
      [12, () => this.#terminate()],
      [6, () => this.#change("POST", "extend", { hours: 1 + Math.floor(this.#random() * 2) })],
      [5, () => this.#change("PATCH", "", { container_image: `img:${Math.floor(this.#random() * 9)}` })],
      [3, () => this.#change("POST", "scale", { replicas: 1 + Math.floor(this.#random() * 4) })],
      [8, () => this.#read()],
      [2, () => this.#operatorStops()],
      [5, () => this.#credit()],
      [2, () => this.#block()],
      [12, () => this.#force()],
      [12, () => this.#fault()],
      [3, () => this.#omit()],
      [6, () => this.#evict()],
      [2, () => this.#calm()],
      [8, async () => undefined],
    ];
    const sum = acts.reduce((all, [weight]) => all + weight, 0);
    let at = this.#random() * sum;
    const [, chosen] = acts.find(([weight]) => {
      at -= weight;
      return at < 0;
    }) ?? [0, async () => undefined];
    await this.fleet.roomForCalls();
    await chosen();
    await this.fleet.run(pick(this.#random, [0, 700, 3_000, 8_000, 20_000, 61_000, 150_000]));
    if (this.#random() < 0.3) await this.#letGo();
  }

  /** Parked answers arrive, and are taken in. */
  async #letGo(): Promise<void> {
    this.fleet.service.letGo();
    await this.fleet.finish(Promise.all(this.#waiting.splice(0)));
  }

  /** All faults are over, everything is stopped, and what is to be seen and booked is. */
  async end(): Promise<void> {
    const { fleet } = this;
    fleet.service.clearFaults();
    await this.#letGo();
    for (const one of this.#running()) {
      fleet.service.force(one.id, "unstuck");
      fleet.service.force(one.id, "resumed");
    }
    for (const { account } of fleet.renters) await done("PATCH", `/accounts/${account}`, { blocked: false });
    // What was resumed is seen running first.
    await fleet.run(70_000);
    for (const renter of fleet.renters) {
      const { stopping } = await done("POST", `/accounts/${renter.account}/compute/stop`);
      this.#asked(renter, stopping);
    }
    await fleet.until("everything upstream has ended", () => this.#running().length === 0, 1_800_000, 10_000);
    await fleet.run(900_000);
  }

  judge(): Promise<void> {
    return new RentalJudge(this.fleet, this.#rented, this.#foreign).judge();
  }

  #running(): MachineExecution[] {
    return this.fleet.service
      .executions()
      .filter(({ state, id }) => id !== this.#foreign && !["stopped", "failed", "lost"].includes(state));
  }

  #one(): Rented | undefined {
    const newest = this.#rented.slice(-16);
    return newest.length === 0 ? undefined : pick(this.#random, newest);
  }

  /** A call whose answer may be a long time coming. */
  async #ask(renter: Renter, method: string, path: string, body: unknown, then: (answer: Json) => void): Promise<void> {
    this.story.push(`${this.fleet.nowMs} ${renter.account} ${method} ${path} ${JSON.stringify(body ?? null)}`);
    const answered = this.fleet.send(renter, method, path, body).then((answer) => {
      this.story.push(`${this.fleet.nowMs} ${renter.account} ${method} ${path}: ${answer.status}`);
      then(answer);
    });
    const parked = this.fleet.service.parked;
    const { service } = this.fleet;
    if ((await this.fleet.finish(answered, () => service.parked > parked)) === "parked") this.#waiting.push(answered);
  }

  async #launch(): Promise<void> {
    const { renters } = this.fleet;
    const renter = pick(this.#random, renters);
    const region = pick(this.#random, REGIONS);
    const cluster = this.#random() < 0.2;
    const interruptible = this.#random() < 0.4;
    const gpus = pick(this.#random, [1, 1, 2]);
    const hours = cluster || this.#random() < 0.4 ? 1 + Math.floor(this.#random() * 3) : undefined;
    const id = `${region.id}-${this.#seed}`;
    const body = {
      region_id: id,
      ...(cluster ? { replicas: 2 } : { gpu_type: `GPU ${id}` }),
      gpu_count: gpus,
      container_image: "img:0",
      interruptible,
      estimated_duration_hours: hours,
    };
    const path = cluster ? "/gpu-clusters" : "/gpu-instances";
    const priceNanoUsd = Math.round((region.priceUsd / (interruptible ? 2 : 1)) * NANO) * gpus * (cluster ? 2 : 1);
    await this.#ask(renter, "POST", path, body, ({ status, body: shown }) => {
      if (status !== 202) return;
      const kind = cluster ? "cluster" : "instance";
      expect(Math.round(shown.hourly_rate_usd * NANO)).toBe(priceNanoUsd);
      this.#rented.push({ renter, id: shown.id, kind, priceNanoUsd, askedMs: null });
    });
  }

  async #terminate(): Promise<void> {
    const one = this.#one();
    if (!one) return;
    const atMs = this.fleet.nowMs;
    const [method, path] =
      one.kind === "instance" ? ["POST", `/gpu-instances/${one.id}/terminate`] : ["DELETE", `/gpu-clusters/${one.id}`];
    await this.#ask(one.renter, method ?? "", path ?? "", undefined, ({ status }) => {
      if (status === 202) one.askedMs = Math.min(one.askedMs ?? atMs, atMs);
    });
  }

  async #change(method: string, verb: string, body: object): Promise<void> {
    const one = this.#one();
    if (!one || (verb === "scale") !== (one.kind === "cluster" && verb !== "extend" && verb !== "")) return;
    const base = one.kind === "instance" ? "/gpu-instances" : "/gpu-clusters";
    await this.#ask(one.renter, method, `${base}/${one.id}${verb && `/${verb}`}`, body, () => undefined);
  }

  async #read(): Promise<void> {
    const one = this.#one();
    if (one?.kind === "instance")
      await this.#ask(one.renter, "GET", `/gpu-instances/${one.id}`, undefined, () => undefined);
  }

  async #operatorStops(): Promise<void> {
    const one = this.#one();
    if (!one) return;
    const { status, body } = await call("POST", `/accounts/${one.renter.account}/compute/stop`, { id: one.id });
    if (status === 200) this.#asked(one.renter, body.stopping);
  }

  #asked(renter: Renter, ids: readonly number[]): void {
    for (const id of ids) {
      const known = this.#rented.find((one) => one.renter === renter && one.id === id);
      if (known) known.askedMs ??= this.fleet.nowMs;
    }
    this.story.push(`${this.fleet.nowMs} ${renter.account} stopped by the operator: ${ids.join()}`);
  }

  async #credit(): Promise<void> {
    const { account } = pick(this.#random, this.fleet.renters);
    const amount = pick(this.#random, [0.5, 2, 12, 25]);
    await done("POST", `/accounts/${account}/credits`, {
      kind: "top_up",
      amount_usd: amount,
      reference: `credit-${this.#seed}-${++this.#credits}`,
    });
  }

  async #block(): Promise<void> {
    const { account } = pick(this.#random, this.fleet.renters);
    await done("PATCH", `/accounts/${account}`, { blocked: this.#random() < 0.3 });
  }

  async #force(): Promise<void> {
    const running = this.#running();
    if (running.length === 0) return;
    const one = pick(this.#random, running);
    const force = pick(this.#random, FORCES);
    // The contract has no status for a preempted cluster.
    if (one.kind === "cluster" && (force === "preempted" || force === "resumed")) return;
    const refused = this.fleet.service.force(one.id, force);
    this.story.push(`${this.fleet.nowMs} ${one.name} ${force} ${refused ?? ""}`);
  }

  async #fault(): Promise<void> {
    const seat = pick(this.#random, this.fleet.renters).seat;
    const fault = pick(this.#random, [
      "lost_answer",
      "lost_answer",
      "reset",
      "parked",
      "refused",
      "failing",
      "unauthorized",
    ] as const satisfies readonly CallFault[]);
    const times = fault === "parked" ? 1 : 1 + Math.floor(this.#random() * 3);
    // Only a tenant's own call is parked: an alarm would wait for it in true time.
    const changes = (method: string, path: string) =>
      method !== "GET" && !(fault === "parked" && (path.endsWith("/terminate") || method === "DELETE"));
    const all = this.#random() < 0.2 && fault !== "parked" && fault !== "lost_answer";
    this.fleet.service.fault(seat, fault, times, all ? () => true : changes);
    this.story.push(`${this.fleet.nowMs} ${seat} fault ${fault} ${times}`);
  }

  async #omit(): Promise<void> {
    const { seat } = pick(this.#random, this.fleet.renters);
    const some = this.#running().filter(() => this.#random() < 0.5);
    const ids = pick(this.#random, [null, "all" as const, new Set(some.map(({ id }) => id))]);
    this.fleet.service.omit(seat, ids);
    this.story.push(`${this.fleet.nowMs} ${seat} omits ${ids === null || ids === "all" ? ids : [...ids].join()}`);
  }

  async #calm(): Promise<void> {
    this.fleet.service.clearFaults();
    await this.#letGo();
  }

  async #evict(): Promise<void> {
    const renter = pick(this.#random, this.fleet.renters);
    // What waits for an answer in the object would be lost with it: kills are shown elsewhere.
    if (this.fleet.service.parked > 0) return;
    if (this.#random() < 0.5) await this.fleet.evictAccount(renter);
    else await this.fleet.evictBroker(renter.seat);
  }
}
