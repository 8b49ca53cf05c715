/** Judges a history of rented machines: each is charged what really ran, by rules that know nothing of the gateway. */
import { env } from "cloudflare:workers";
import { expect } from "vitest";
import type { MachineExecution } from "../../../sandbox/compute/executions.ts";
import { type Look, rightfulCharge } from "../rightful-charge.ts";
import type { Fleet, Renter } from "./fleet.ts";

/** A stop is sent within 2 s of what is paid; an account's alarms are a second apart. */
const STOP_LATE_MS = 3_000;

/** A launch without an answer has failed if two lists lack it that were asked for so much later. */
const CREATE_PROOF_MS = 120_000;

/** A resource as its tenant knows it. */
export interface Rented {
  readonly renter: Renter;
  readonly id: number;
  readonly kind: "instance" | "cluster";
  readonly priceNanoUsd: number;
  /** When its end was first asked for and not refused. */
  askedMs: number | null;
}

/** A resource's usage events, summed. */
interface Reported {
  readonly price: number;
  /** The loss is part of it. */
  readonly cost: number;
  readonly loss: number;
  /** In hours of true length. */
  readonly gpuMs: number;
}

const TRUE_HOUR_MS = 3_600_000;
const sum = (numbers: readonly number[]): number => numbers.reduce((all, one) => all + one, 0);

export class RentalJudge {
  private readonly fleet: Fleet;
  private readonly rented: readonly Rented[];
  private readonly foreign: number;

  #judged = 0;

  constructor(fleet: Fleet, rented: readonly Rented[], foreign: number) {
    this.fleet = fleet;
    this.rented = rented;
    this.foreign = foreign;
  }

  async judge(): Promise<void> {
    const ran = this.fleet.service.executions().filter(({ id }) => id !== this.foreign);
    const names = ran.map(({ name }) => name);
    expect(new Set(names).size, "one create per row").toBe(names.length);
    for (const renter of this.fleet.renters) {
      await this.#judgeRenter(renter, ran);
    }
    this.#judgeForeign();
    expect(this.#judged, "machines that ran").toBeGreaterThan(0);
  }

  async #judgeRenter(renter: Renter, ran: readonly MachineExecution[]): Promise<void> {
    const audit = await this.fleet.accountStub(renter).audit();
    expect(audit, renter.account).toMatchObject({ ok: true, problems: [], openHolds: 0, heldNanoUsd: 0 });
    expect(audit?.balanceNanoUsd).toBeGreaterThanOrEqual(0);
    const charged = await this.#charged(renter);
    const reported = await this.#reported(renter);
    expect(sum([...reported.values()].map(({ loss }) => loss)), "losses told").toBe(audit?.operatorLossNanoUsd);
    const own = ran.filter(({ name }) => name?.split("-")[1] === String(renter.number));
    const ids = new Set([...charged.keys(), ...own.map(({ name }) => Number(name?.split("-")[2]))]);
    for (const id of ids) {
      const rented = this.rented.find((one) => one.renter === renter && one.id === id);
      const execution = own.find(({ name }) => Number(name?.split("-")[2]) === id);
      const { nanoUsd, periods } = charged.get(id) ?? { nanoUsd: 0, periods: 0 };
      const told = reported.get(id) ?? { price: 0, cost: 0, loss: 0, gpuMs: 0 };
      expect(told.price, `${renter.account} ${id}: reports and ledger`).toBe(nanoUsd);
      expect(nanoUsd > 0 && !(rented && execution), `${renter.account} ${id} never ran`).toBe(false);
      if (!rented || !execution) continue;
      await this.#judgeMachine(rented, execution, nanoUsd, periods);
      this.#judgeUsage(rented, execution, told, periods);
    }
  }

  async #judgeMachine(rented: Rented, ran: MachineExecution, nanoUsd: number, periods: number): Promise<void> {
    const { renter, id, kind, priceNanoUsd, askedMs } = rented;
    const path = kind === "instance" ? `/gpu-instances/${id}` : `/gpu-clusters/${id}`;
    // A key has 60 calls a minute.
    await this.fleet.run(1_100);
    const { status, body } = await this.fleet.call(renter, "GET", path);
    expect(status, JSON.stringify(body)).toBe(200);
    const shown = kind === "instance" ? body.instance : body;
    const looks: Look[] = this.fleet.service.calls.flatMap(({ atMs, toldMs, shown: states }) => {
      const status = toldMs === null ? undefined : states.get(ran.id);
      return status === undefined ? [] : [{ atMs, status }];
    });
    const stop = this.fleet.service.calls.find(
      ({ method, path: of }) =>
        of === `${path.replace(String(id), String(ran.id))}/terminate` ||
        (method === "DELETE" && of.endsWith(`/${ran.id}`)),
    );
    if (this.#provenLost(ran)) {
      expect({ nanoUsd, status: shown.status }, JSON.stringify({ shown, ran })).toEqual({
        nanoUsd: 0,
        status: "failed",
      });
      return;
    }
    const isDepleted = shown.termination_reason === "credit_depleted";
    const hourMs = Number(env.COMPUTE_HOUR_MS);
    const rightful = rightfulCharge(
      ran,
      looks,
      { priceNanoUsd, hourMs, hours: shown.estimated_duration_hours },
      { askedMs, depleted: isDepleted && stop ? { stopSentMs: stop.atMs, lateMs: STOP_LATE_MS } : null },
      periods,
    );
    const told = JSON.stringify({
      account: renter.account,
      id,
      askedMs,
      shown,
      ran,
      looks: looks.slice(-12),
      rightful,
    });
    if (ran.started_ms !== null) this.#judged += 1;
    expect(nanoUsd, told).toBeGreaterThanOrEqual(rightful.leastNanoUsd);
    expect(nanoUsd, told).toBeLessThanOrEqual(rightful.mostNanoUsd);
  }

  /** What is reported as used is what was charged; with the operator's loss it is what ran, and never more. */
  #judgeUsage({ id, priceNanoUsd }: Rented, ran: MachineExecution, told: Reported, periods: number): void {
    const of = JSON.stringify({ id, ran, told });
    const [hourMs, usedMs] = [Number(env.COMPUTE_HOUR_MS), told.gpuMs / ran.gpus];
    expect(Math.abs(told.price - (priceNanoUsd * usedMs) / TRUE_HOUR_MS), of).toBeLessThanOrEqual(periods + 1);
    const costNanoUsd = Math.round(ran.hourly_rate_usd * 1e9);
    expect(Math.abs(told.cost - told.loss - (costNanoUsd * usedMs) / TRUE_HOUR_MS), of).toBeLessThanOrEqual(
      periods + 1,
    );
    // A preemption that no list showed is charged, so it may count as used. A cluster that stops shows as running.
    const isWhole = ran.runs.length === 1 && ran.runs[0]?.to_ms === ran.ended_ms;
    const mostMs = isWhole ? ran.pod_ms : (ran.stopped_ms ?? 0) - (ran.started_ms ?? 0);
    const nanoUsd = (ms: number) => (costNanoUsd * ms) / hourMs;
    expect(told.cost, of).toBeLessThanOrEqual(nanoUsd(mostMs) + periods + 1);
    if (!isWhole || ran.state !== "stopped" || this.#provenLost(ran)) return;
    expect(told.cost, of).toBeGreaterThanOrEqual(nanoUsd(ran.ms) - 1);
  }

  /** By resource, from the usage events in the operator's database, once all have come there. */
  async #reported(renter: Renter): Promise<Map<number, Reported>> {
    const stub = this.fleet.accountStub(renter);
    await this.fleet.until("its events are reported", async () => (await stub.audit())?.outbox === 0, 900_000, 5_000);
    const { results } = await env.BOOKS.prepare(
      `select event_id as id, price_nano_usd as price, cost_nano_usd as cost, loss_nano_usd as loss,
         gpu_ms + interruptible_gpu_ms as gpuMs from usage_events where account = ?`,
    )
      .bind(renter.account)
      .all<Reported & { id: string }>();
    const byId = Map.groupBy(results, ({ id }) => Number(id.split("-")[2]));
    const total = (its: readonly Reported[], what: keyof Reported) => sum(its.map((one) => one[what]));
    return new Map(
      [...byId].map(([id, its]) => [
        id,
        { price: total(its, "price"), cost: total(its, "cost"), loss: total(its, "loss"), gpuMs: total(its, "gpuMs") },
      ]),
    );
  }

  /**
   * Its launch had no answer, and two lists lacked it that were asked for two minutes later: it counts as never made.
   */
  #provenLost(ran: MachineExecution): boolean {
    const ofSeat = this.fleet.service.calls.filter(({ account }) => account === ran.account);
    const create = ofSeat.find(({ method, shown }) => method === "POST" && shown.has(ran.id));
    const path = ran.kind === "instance" ? "/gpu-instances" : "/gpu-clusters";
    const lists = ofSeat.filter(
      (call) => call.method === "GET" && call.path === path && call.status === 200 && call.toldMs !== null,
    );
    const foundMs = Math.min(
      create?.toldMs ?? Number.POSITIVE_INFINITY,
      lists.find(({ shown }) => shown.has(ran.id))?.atMs ?? Number.POSITIVE_INFINITY,
    );
    const lacking = lists.filter(({ atMs }) => atMs >= ran.created_ms + CREATE_PROOF_MS && atMs < foundMs);
    return lacking.length >= 2;
  }

  /** What is not ours is never changed. */
  #judgeForeign(): void {
    const { calls, world } = this.fleet.service;
    const touched = calls.filter(({ method, path }) => method !== "GET" && path.includes(String(this.foreign)));
    expect(touched).toEqual([]);
    expect(world.resource(this.foreign)).toMatchObject({ phase: "running" });
  }

  /** By resource, from the ledger: charges less what came back. */
  async #charged(renter: Renter): Promise<Map<number, { nanoUsd: number; periods: number }>> {
    const sums = new Map<number, { nanoUsd: number; periods: number }>();
    for (const { callId, amountNanoUsd, kind } of await this.fleet.entries(renter)) {
      const id = Number(callId?.split("-")[2] ?? Number.NaN);
      if (Number.isNaN(id)) continue;
      const { nanoUsd, periods } = sums.get(id) ?? { nanoUsd: 0, periods: 0 };
      sums.set(id, { nanoUsd: nanoUsd - amountNanoUsd, periods: periods + (kind === "charge" ? 1 : 0) });
    }
    return sums;
  }
}
