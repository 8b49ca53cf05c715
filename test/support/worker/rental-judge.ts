/** Judges a history of rented machines: each is charged what really ran, by rules that know nothing of the gateway. */
import { env } from "cloudflare:workers";
import { expect } from "vitest";
import type { MachineExecution } from "../../../sandbox/compute/executions.ts";
import { type Look, rightfulCharge } from "../rightful-charge.ts";
import type { Fleet, Renter } from "./fleet.ts";

/** A stop is sent within 2 s of what is paid; an account's alarms are a second apart. */
const STOP_LATE_MS = 3_000;

/** A resource as its tenant knows it. */
export interface Rented {
  readonly renter: Renter;
  readonly id: number;
  readonly kind: "instance" | "cluster";
  readonly priceNanoUsd: number;
  /** When its end was first asked for and not refused. */
  askedMs: number | null;
}

export class RentalJudge {
  private readonly fleet: Fleet;
  private readonly rented: readonly Rented[];
  private readonly foreign: number;

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
  }

  async #judgeRenter(renter: Renter, ran: readonly MachineExecution[]): Promise<void> {
    const audit = await this.fleet.accountStub(renter).audit();
    expect(audit, renter.account).toMatchObject({ ok: true, problems: [], openHolds: 0, heldNanoUsd: 0 });
    expect(audit?.balanceNanoUsd).toBeGreaterThanOrEqual(0);
    const charged = await this.#charged(renter);
    const own = ran.filter(({ name }) => name?.split("-")[1] === String(renter.number));
    const ids = new Set([...charged.keys(), ...own.map(({ name }) => Number(name?.split("-")[2]))]);
    for (const id of ids) {
      const rented = this.rented.find((one) => one.renter === renter && one.id === id);
      const execution = own.find(({ name }) => Number(name?.split("-")[2]) === id);
      const { nanoUsd, periods } = charged.get(id) ?? { nanoUsd: 0, periods: 0 };
      expect(nanoUsd > 0 && !(rented && execution), `${renter.account} ${id} never ran`).toBe(false);
      if (!rented || !execution) continue;
      await this.#judgeMachine(rented, execution, nanoUsd, periods);
    }
  }

  async #judgeMachine(rented: Rented, ran: MachineExecution, nanoUsd: number, periods: number): Promise<void> {
    const { renter, id, kind, priceNanoUsd, askedMs } = rented;
    const path = kind === "instance" ? `/gpu-instances/${id}` : `/gpu-clusters/${id}`;
    await this.fleet.roomForCalls();
    const { body } = await this.fleet.call(renter, "GET", path);
    const shown = kind === "instance" ? body.instance : body;
    const looks: Look[] = this.fleet.service.calls.flatMap(({ atMs, told, shown: states }) => {
      const status = told ? states.get(ran.id) : undefined;
      return status === undefined ? [] : [{ atMs, status }];
    });
    const stop = this.fleet.service.calls.find(
      ({ method, path: of }) =>
        of === `${path.replace(String(id), String(ran.id))}/terminate` ||
        (method === "DELETE" && of.endsWith(`/${ran.id}`)),
    );
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
    expect(nanoUsd, told).toBeGreaterThanOrEqual(rightful.leastNanoUsd);
    expect(nanoUsd, told).toBeLessThanOrEqual(rightful.mostNanoUsd);
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
    let cursor: string | null = null;
    do {
      const page = await this.fleet.accountStub(renter).entries({ limit: 1_000, cursor });
      for (const { callId, amountNanoUsd, kind } of page?.data ?? []) {
        const id = Number(callId?.split("-")[2] ?? Number.NaN);
        if (Number.isNaN(id)) continue;
        const { nanoUsd, periods } = sums.get(id) ?? { nanoUsd: 0, periods: 0 };
        sums.set(id, { nanoUsd: nanoUsd - amountNanoUsd, periods: periods + (kind === "charge" ? 1 : 0) });
      }
      cursor = page?.nextCursor ?? null;
    } while (cursor !== null);
    return sums;
  }
}
