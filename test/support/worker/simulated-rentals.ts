/**
 * Rented machines on a clock of the test's own: a fleet for each test, tenants with a seat of their own, and what is
 * asked of them again and again.
 */
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, expect, vi } from "vitest";
import { Fleet, type Renter } from "./fleet.ts";
import { settled } from "./operator.ts";

/** The hour of money is ten minutes. */
export const HOUR_MS = 600_000;
const trueTimes = { COMPUTE_HOUR_MS: env.COMPUTE_HOUR_MS, COMPUTE_DAY_MS: env.COMPUTE_DAY_MS };
export const NANO = 1_000_000_000;
export const PRICE = 3.6;
export const COST = 2;

/** Of the test that runs. */
export let fleet: Fleet;
let logged: string[];
let made = 0;

/** Before and after each test of the file that calls it. `dayMs`: the day of storage. */
export function withFleet(dayMs = 12 * HOUR_MS): void {
  beforeEach(() => {
    Object.assign(env, { COMPUTE_HOUR_MS: String(HOUR_MS), COMPUTE_DAY_MS: String(dayMs) });
    logged = [];
    vi.spyOn(console, "log").mockImplementation((line: unknown) => {
      logged.push(typeof line === "string" ? line : JSON.stringify(line));
    });
    fleet = new Fleet();
  });
  afterEach(async () => {
    await settled();
    vi.restoreAllMocks();
    vi.useRealTimers();
    Object.assign(env, trueTimes);
  });
}

export const region = () => `outage-${made}`;

/** A tenant with a seat of its own, and prices of 3.6 USD an hour for what costs 2. */
export async function renting(balanceUsd: number, fields: object = {}, key: object = {}): Promise<Renter> {
  made += 1;
  await fleet.region(region(), COST, PRICE);
  await fleet.seat(`outage-seat-${made}`, false);
  return fleet.renter(`outage-${made}`, `outage-seat-${made}`, balanceUsd, fields, key);
}

export async function running(renter: Renter, fields: object = {}): Promise<number> {
  const { status, body } = await fleet.launch(renter, region(), fields);
  expect(status, JSON.stringify(body)).toBe(202);
  await fleet.until("running", async () => (await fleet.instance(renter, body.id)).status === "running", 30_000);
  return body.id;
}

/** Whole nano-USD a ms. */
export const priceOf = (ms: number) => ms * ((PRICE * NANO) / HOUR_MS);
export const ranMs = (renter: Renter) => fleet.service.executions(renter.seat).reduce((sum, { ms }) => sum + ms, 0);
export const audit = (renter: Renter) => fleet.accountStub(renter).audit();
export const changes = (renter: Renter) =>
  fleet.service.calls.filter(({ account, method }) => account === renter.seat && method !== "GET");
/** Log lines of an event; none of what a test before this one left running. */
export const events = (name: string) =>
  logged.filter((line) => line.includes(`"${name}"`) && fleet.isOf(JSON.parse(line).account));
export const untilEnded = (renter: Renter, id: number, withinMs = 300_000) =>
  fleet.until("ended", async () => (await fleet.instance(renter, id)).status === "terminated", withinMs, 7_000);
