/**
 * Rents a GPU through Tollgate: launches an instance, waits until it runs, shows what it has cost so far, terminates
 * it, and says what was charged and what came back.
 *
 *     TOLLGATE_KEY=sk-tg-... npx node examples/compute.ts
 *
 * The key needs the scope `compute`, as the one that `npm start` prints has it. TOLLGATE_URL names another deployment,
 * RUN_SECONDS how long the instance is to run (10). Without GPU_TYPE the cheapest type that is free now is rented.
 */
import { setTimeout as pause } from "node:timers/promises";

const url = process.env.TOLLGATE_URL ?? "http://localhost:8787";
const key = process.env.TOLLGATE_KEY ?? "";
const image = process.env.IMAGE ?? "platform/pytorch:2.9";
const runMs = Number(process.env.RUN_SECONDS ?? 10) * 1_000;

interface Region {
  readonly id: string;
  readonly name: string;
  readonly gpu_type: string;
  /** GPUs that a launch can get now. */
  readonly available: number;
}
interface Price {
  readonly gpu_type: string;
  readonly hourly_rate_usd: number;
}
interface Instance {
  readonly id: number;
  readonly status: string;
  /** Of the whole instance. */
  readonly hourly_rate_usd: number;
  readonly started_at: string | null;
  readonly terminated_at: string | null;
  readonly termination_reason: string | null;
  readonly ssh_command?: string;
}
interface Wrapped {
  readonly instance: Instance;
  /** USD. */
  readonly held_amount: number;
}

/** A key may make 60 calls a minute; an instance takes seconds to minutes to start. */
const POLL_EVERY_MS = 2_000;
const ENDED = ["terminated", "failed"];

/** Sends a call; a refusal is thrown in the service's own words, which say what to do. */
async function call<Answer>(method: string, path: string, body?: unknown, headers = {}): Promise<Answer> {
  const response = await fetch(url + path, {
    method,
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json", ...headers },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const answer = (await response.json()) as Answer & { error?: string };
  if (!response.ok) throw new Error(`${response.status}: ${answer.error}`);
  return answer;
}

const say = (line: string): void => void process.stdout.write(`${line}\n`);
const progress = (line: string): void => void process.stdout.write(`\r${line.padEnd(70)}`);
const usd = (amount: number): string => `${Number(amount.toFixed(6))} USD`;
const balance = async (): Promise<number> => (await call<{ balance: number }>("GET", "/billing/balance")).balance;

/** The cheapest GPU that a launch can get now. */
async function choose(): Promise<Region & Price> {
  const [regions, prices] = await Promise.all([
    call<Region[]>("GET", "/gpu-instances/availability"),
    call<Price[]>("GET", "/platform/gpu-prices"),
  ]);
  const offers = regions.flatMap((region) => {
    const price = prices.find(({ gpu_type }) => gpu_type === region.gpu_type);
    const wanted = process.env.GPU_TYPE ?? region.gpu_type;
    return price && region.available > 0 && region.gpu_type === wanted ? [{ ...region, ...price }] : [];
  });
  const [cheapest] = offers.sort((a, b) => a.hourly_rate_usd - b.hourly_rate_usd);
  if (!cheapest) throw new Error("No GPU is free now. GET /gpu-instances/availability shows when one is.");
  return cheapest;
}

/** Polls until it is in one of these states, or has ended. */
async function until(id: number, states: readonly string[], show: (seen: Wrapped) => string): Promise<Wrapped> {
  for (;;) {
    const seen = await call<Wrapped>("GET", `/gpu-instances/${id}`);
    progress(show(seen));
    if ([...states, ...ENDED].includes(seen.instance.status)) return seen;
    await pause(POLL_EVERY_MS);
  }
}

const offer = await choose();
say(
  `${offer.gpu_type} in ${offer.name}: ${usd(offer.hourly_rate_usd)} an hour. The balance is ${usd(await balance())}.`,
);

// The hour is held now; without credit for it nothing is launched. After it the instance ends by itself, also if this
// program was stopped. With the Idempotency-Key a repeat after a broken connection gets the same instance, not a
// second.
const { id } = await call<Instance>(
  "POST",
  "/gpu-instances",
  {
    name: "example",
    region_id: offer.id,
    gpu_type: offer.gpu_type,
    gpu_count: 1,
    container_image: image,
    estimated_duration_hours: 1,
  },
  { "idempotency-key": crypto.randomUUID() },
);
const launchedAt = Date.now();
const seconds = (): string => `${Math.round((Date.now() - launchedAt) / 1_000)} s`;
const { instance, held_amount } = await until(id, ["running"], (seen) => `${seen.instance.status}, ${seconds()}`);
say("");
if (instance.status !== "running") throw new Error(`It ended before it ran: ${instance.termination_reason}.`);
say(`Instance ${id} runs. ${usd(held_amount)} are held. ${instance.ssh_command ?? ""}`);

// Billing runs from `started_at`, by the millisecond.
const startedAt = Date.parse(instance.started_at ?? "");
for (const endAt = Date.now() + runMs; Date.now() < endAt; await pause(500)) {
  const hours = (Date.now() - startedAt) / 3_600_000;
  progress(`so far ${usd(hours * instance.hourly_rate_usd)} in ${seconds()}`);
}
say("");

// Nothing is charged from this call on. The rest of the hold comes back when the instance has stopped.
await call<Instance>("POST", `/gpu-instances/${id}/terminate`);
const ended = await until(id, [], (seen) => `${seen.instance.status}, ${usd(seen.held_amount)} held`);
say("");
const { terminated_at, termination_reason } = ended.instance;
// Not from the balance, which moves with whatever else the account runs.
const ranMs = Math.max(0, Date.parse(terminated_at ?? "") - startedAt);
const charged = (ranMs / 3_600_000) * instance.hourly_rate_usd;
say(`It ran until ${terminated_at} (${termination_reason}).`);
say(`Charged ${usd(charged)}; ${usd(held_amount - charged)} of the hold came back.`);
