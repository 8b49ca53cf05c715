/**
 * A random history of drives and filesystems: made, attached, unpaid, paid, deleted, while calls fail in every way and
 * objects are evicted. In the end each day that began before a deletion was charged once, or lost after the grace.
 */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect } from "vitest";
import type { StorageRow } from "../../../src/core/compute/resource.ts";
import { pick, type Random, streamOf } from "../../soak/random.ts";
import { Fleet, type Renter } from "./fleet.ts";
import type { CallFault } from "./memory-service.ts";
import { done, type Json } from "./operator.ts";

const NANO = 1_000_000_000;
/** USD for a GB and day. */
const PRICES = { drive: 0.02, filesystem: 0.030000001 } as const;
const COST = 0.01;
const LISTS = { drive: "/cloud-drives", filesystem: "/shared-filesystems" } as const;
type Kind = keyof typeof LISTS;
const KINDS: readonly Kind[] = ["drive", "filesystem"];

export class StorageHistory {
  readonly fleet = new Fleet();
  readonly story: string[] = [];
  readonly #seed: number;
  readonly #random: Random;
  readonly #region: string;
  readonly #dayMs = Number(env.COMPUTE_DAY_MS);
  #credits = 0;
  #names = 0;
  #toppedUp = new Map<Renter, number>();

  constructor(seed: number) {
    this.#seed = seed;
    this.#random = streamOf(seed, "storage");
    this.#region = `storage-${seed}`;
  }

  /** One tenant who has money, one who runs out of it within days, and one whose storage is never deleted for that. */
  async begin(): Promise<void> {
    for (const kind of KINDS) {
      const prices = { storage_gb_days: { cost_usd: COST, price_usd: PRICES[kind] } };
      await done("PUT", `/models/storage%2F${kind}`, { kind: "storage", prices });
    }
    await this.fleet.region(this.#region, 2, 3.6);
    for (const [index, [balance, grace]] of (
      [
        [10_000, 4],
        [12, 4],
        [8, null],
      ] as const
    ).entries()) {
      const name = `storage-${this.#seed}-${index}`;
      await this.fleet.seat(name, false);
      const renter = await this.fleet.renter(name, name, balance, { storage_grace_days: grace }, { role: "owner" });
      this.#toppedUp.set(renter, balance);
    }
  }

  async act(): Promise<void> {
    const renter = pick(this.#random, this.fleet.renters);
    const acts = [
      this.#make,
      this.#make,
      this.#delete,
      this.#launch,
      this.#terminate,
      this.#credit,
      this.#fault,
      this.#evict,
    ];
    await this.fleet.roomForCalls();
    await pick(this.#random, acts).call(this, renter);
    this.fleet.service.letGo();
    await this.fleet.run(Math.floor(this.#random() * this.#dayMs * 0.6));
    await this.#evict(renter);
  }

  /** All that is left is paid and deleted. */
  async end(): Promise<void> {
    this.fleet.service.clearFaults();
    for (const renter of this.fleet.renters) {
      await this.#topUp(renter, 10_000);
      await done("POST", `/accounts/${renter.account}/compute/stop`);
    }
    await this.fleet.run(600_000);
    for (const renter of this.fleet.renters) {
      for (const kind of KINDS)
        for (const { id } of await this.#own(renter, kind)) await this.#remove(renter, kind, id);
    }
    const left = () => this.fleet.service.storage().filter(({ state }) => !["deleted", "lost"].includes(state));
    await this.fleet.until("nothing is left upstream", () => left().length === 0, 600_000, 10_000);
    await this.fleet.run(300_000);
  }

  async judge(): Promise<void> {
    const kept = this.fleet.service.storage();
    expect(new Set(kept.map(({ name }) => name)).size, "one create per row").toBe(kept.length);
    let days = 0;
    for (const renter of this.fleet.renters) days += await this.#judgeRenter(renter, kept);
    expect(days).toBeGreaterThan(0);
  }

  async #judgeRenter(renter: Renter, kept: ReturnType<Fleet["service"]["storage"]>): Promise<number> {
    const stub = this.fleet.accountStub(renter);
    const audit = await stub.audit();
    expect(audit, this.story.join("\n")).toMatchObject({ ok: true, problems: [], openHolds: 0, heldNanoUsd: 0 });
    const charged = (await this.fleet.entries(renter)).filter(({ kind }) => kind === "charge");
    const total = charged.reduce((sum, { amountNanoUsd }) => sum + amountNanoUsd, 0);
    expect(audit?.balanceNanoUsd).toBe((this.#toppedUp.get(renter) ?? 0) * NANO + total);
    let days = 0;
    const losses = await this.#losses(renter);
    for (const row of await this.#rows(renter)) {
      const upstream = kept.find(({ name }) => name === row.tag);
      const told = JSON.stringify({ row, upstream }) + this.story.join("\n");
      const paid = charged.filter(({ callId }) => callId?.split("-")[2] === String(row.id));
      const price = Math.round(PRICES[row.kind] * NANO) * row.asked.sizeGb;
      expect(
        paid.every(({ amountNanoUsd }) => amountNanoUsd === 0 - price),
        told,
      ).toBe(true);
      const numbers = paid.map(({ callId }) => Number(callId?.split("-")[3])).sort((one, other) => one - other);
      expect(new Set(numbers).size, told).toBe(numbers.length);
      // With what was lost it comes to what the service keeps its days for.
      const cost = Math.round(COST * NANO) * row.asked.sizeGb;
      const lost = losses.get(row.id) ?? { known: 0, atMost: 0 };
      const billed = ((upstream?.days_charged ?? 0) - numbers.length) * cost;
      // Where nobody saw when it was deleted, a loss is an upper bound, and the books say so.
      expect(lost.known, told).toBeLessThanOrEqual(billed);
      expect(lost.atMost, told).toBeGreaterThanOrEqual(billed);
      if (row.create !== "done") {
        expect(numbers, told).toEqual([]);
        continue;
      }
      expect(upstream, told).toBeDefined();
      const endMs = row.wants.end?.askedMs ?? row.seen.endedAtMs ?? 0;
      // Of a delete the day counts that begins in its very millisecond; of a deletion after the grace it does not.
      const untilMs = row.wants.end?.reason === "credit_depleted" ? endMs - 1 : endMs;
      const begun = Math.floor((untilMs - row.rental.createdAtMs) / this.#dayMs) + 1;
      // Paid or lost: a day that was lost comes after all that were paid.
      expect(numbers, told).toEqual(Array.from({ length: numbers.length }, (_, index) => index + 1));
      expect(numbers.length, told).toBeLessThanOrEqual(begun);
      // Unpaid days of what was deleted meanwhile are lost after the grace too.
      expect(numbers.length + lost.atMost / cost, told).toBeGreaterThanOrEqual(begun);
      days += begun;
    }
    return days;
  }

  /** The operator's, of each resource, nano-USD: what is known, and with the estimates. */
  async #losses(renter: Renter): Promise<ReadonlyMap<number, { known: number; atMost: number }>> {
    const rows = await runInDurableObject(
      this.fleet.accountStub(renter) as DurableObjectStub<undefined>,
      (_, { storage }) =>
        storage.sql
          .exec<{ id: string; amount: number; estimated: number }>(
            "SELECT call_id AS id, amount_nano_usd AS amount, estimated FROM operator_book WHERE kind = 'operator_loss'",
          )
          .toArray(),
    );
    const sums = new Map<number, { known: number; atMost: number }>();
    for (const { id, amount, estimated } of rows) {
      const resource = Number(id.split("-")[2]);
      const { known, atMost } = sums.get(resource) ?? { known: 0, atMost: 0 };
      sums.set(resource, { known: known + (estimated ? 0 : amount), atMost: atMost + amount });
    }
    return sums;
  }

  async #rows(renter: Renter): Promise<StorageRow[]> {
    return runInDurableObject(this.fleet.accountStub(renter) as DurableObjectStub<undefined>, (_, { storage }) =>
      storage.sql
        .exec<{ row: string }>("SELECT row FROM resources WHERE kind IN ('drive', 'filesystem') ORDER BY id")
        .toArray()
        .map(({ row }) => JSON.parse(row) as StorageRow),
    );
  }

  async #ask(renter: Renter, method: string, path: string, body?: object): Promise<Json> {
    this.story.push(`${this.fleet.nowMs} ${renter.account} ${method} ${path} ${JSON.stringify(body ?? null)}`);
    const { service } = this.fleet;
    const parked = service.parked;
    const sent = this.fleet.send(renter, method, path, body);
    const answer = await this.fleet.finish(sent, () => service.parked > parked);
    if (answer === "parked") {
      await this.fleet.run(pick(this.#random, [2_000, 15_000, 25_000]));
      service.letGo();
      return this.fleet.finish(sent);
    }
    this.story.push(`${this.fleet.nowMs} ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer;
  }

  async #own(renter: Renter, kind: Kind): Promise<{ id: number; status: string }[]> {
    const { body } = await this.fleet.call(renter, "GET", LISTS[kind]);
    return (body as { id: number; status: string }[]).filter(
      ({ status }) => !["deleted", "lost", "deleting"].includes(status),
    );
  }

  async #make(renter: Renter): Promise<void> {
    const kind = pick(this.#random, KINDS);
    const body = { name: `s${this.#names++}`, region_id: this.#region, size_gb: pick(this.#random, [50, 100]) };
    const { status } = await this.#ask(renter, "POST", LISTS[kind], body);
    expect([202, 402, 409, 429, 503]).toContain(status);
  }

  async #delete(renter: Renter): Promise<void> {
    const kind = pick(this.#random, KINDS);
    const own = await this.#own(renter, kind);
    if (own.length > 0) await this.#remove(renter, kind, pick(this.#random, own).id);
  }

  async #remove(renter: Renter, kind: Kind, id: number): Promise<void> {
    // A key has 60 calls a minute.
    await this.fleet.run(1_100);
    const { status } = await this.#ask(renter, "DELETE", `${LISTS[kind]}/${id}`);
    expect([202, 409]).toContain(status);
  }

  async #launch(renter: Renter): Promise<void> {
    const drives = await this.#own(renter, "drive");
    const [one] = drives;
    const attached = one ? { cloud_drives: [{ id: one.id, mount_path: "/d" }] } : {};
    const made = { new_shared_filesystems: [{ name: `s${this.#names++}`, size_gb: 50, mount_path: "/f" }] };
    await this.#ask(renter, "POST", "/gpu-instances", {
      ...{ region_id: this.#region, gpu_type: `GPU ${this.#region}`, gpu_count: 1, container_image: "ubuntu:24" },
      ...attached,
      ...(this.#random() < 0.5 && made),
    });
  }

  async #terminate(renter: Renter): Promise<void> {
    const { body } = await this.fleet.call(renter, "GET", "/gpu-instances");
    for (const { id } of (body as { id: number; status: string }[]).filter(({ status }) => status === "running")) {
      await this.#ask(renter, "POST", `/gpu-instances/${id}/terminate`);
    }
  }

  async #credit(renter: Renter): Promise<void> {
    await this.#topUp(renter, pick(this.#random, [1, 3, 9]));
  }

  async #topUp(renter: Renter, amountUsd: number): Promise<void> {
    this.story.push(`${this.fleet.nowMs} ${renter.account} +${amountUsd}`);
    const reference = `${this.#seed}-${this.#credits++}`;
    await done("POST", `/accounts/${renter.account}/credits`, { amount_usd: amountUsd, reference });
    this.#toppedUp.set(renter, (this.#toppedUp.get(renter) ?? 0) + amountUsd);
  }

  async #fault(renter: Renter): Promise<void> {
    const fault = pick<CallFault>(this.#random, [
      "lost_answer",
      "reset",
      "parked",
      "refused",
      "failing",
      "unauthorized",
    ]);
    const times = 1 + Math.floor(this.#random() * 3);
    this.story.push(`${this.fleet.nowMs} ${renter.account} ${fault} x${times}`);
    this.fleet.service.fault(renter.seat, fault, times, (method, path) => method !== "GET" && !path.includes("gpu"));
    if (this.#random() < 0.3) this.fleet.service.omit(renter.seat, "all");
    else this.fleet.service.omit(renter.seat, null);
  }

  async #evict(renter: Renter): Promise<void> {
    await this.fleet.evictAccount(renter);
    await this.fleet.evictBroker(renter.seat);
  }
}
