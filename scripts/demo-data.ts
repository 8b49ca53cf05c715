/**
 * `npm start -- --demo-data`: two weeks of made-up usage, so that the console's plots show something. The calls are
 * made up, and real all the same: each one goes through the gateway to the sandbox, on a clock that runs through two
 * weeks, so ledgers, events and sums agree. Its accounts say in their names that they are made up.
 */
import { type NewKey, OperatorClient } from "../client/operator.ts";
import { DEMO_CLOCK } from "./demo-clock.ts";

export const DEMO_DAYS = 14;
const HOUR_MS = 3_600_000;
/** Calls at once; the clock moves on while they run, so that they take some time. */
const AT_ONCE = 8;
const TICK_MS = 15;
/** How long the end of a call that was left may take. */
const BOOKED_MS = 400;

interface MadeUp {
  readonly id: string;
  readonly name: string;
  readonly creditUsd: number;
  /** How much of all calls are its own. */
  readonly share: number;
  readonly markup: number;
  readonly keys: readonly string[];
}
const ACCOUNTS: readonly MadeUp[] = [
  {
    id: "made-up-robotics",
    name: "Acme Robotics (made up)",
    creditUsd: 3,
    share: 0.5,
    markup: 20,
    keys: ["production", "staging"],
  },
  {
    id: "made-up-support",
    name: "Northwind Support (made up)",
    creditUsd: 1,
    share: 0.3,
    markup: 35,
    keys: ["chat widget"],
  },
  {
    id: "made-up-lab",
    name: "Harbor Lab (made up)",
    creditUsd: 0.3,
    share: 0.2,
    markup: 10,
    keys: ["notebooks", "nightly"],
  },
];
const MODELS = ["llama-7b", "llama-7b", "llama-7b", "llama-70b", "llama-70b", "embed-small"];
const PROMPTS = [
  "Summarise this ticket.",
  "Write a test for this function.",
  "Translate this page.",
  "Say hello.",
  "Why is the sky blue?",
];

interface Caller {
  readonly account: MadeUp;
  readonly key: string;
}
export interface DemoWorld {
  readonly gateway: string;
  readonly adminToken: string;
  readonly nowMs: number;
  say(text: string): void;
}

/**
 * The same numbers each time: two starts in the same hour of the week make the same calls. How long each takes, and so
 * when it ends, differs.
 */
function dice(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** How busy an hour is: days more than nights, working days more than the weekend. */
function busy(ms: number): number {
  const at = new Date(ms);
  const day = at.getUTCDay() === 0 || at.getUTCDay() === 6 ? 0.4 : 1;
  return day * (0.25 + Math.max(0, Math.sin(((at.getUTCHours() - 6) / 14) * Math.PI)));
}

export async function makeDemoData(world: DemoWorld): Promise<void> {
  const { gateway, adminToken, nowMs, say } = world;
  // How often the clock moves while calls run, nobody knows: it has dice of its own.
  const [random, ticks] = [dice(20), dice(21)];
  const beginMs = nowMs - DEMO_DAYS * 24 * HOUR_MS;
  const callers = await openAccounts(new OperatorClient({ url: gateway, token: adminToken }));
  let made = 0;
  for (let hourMs = beginMs; hourMs < nowMs - HOUR_MS; hourMs += HOUR_MS) {
    const calls = Math.round((3 + random() * 4) * busy(hourMs));
    await moveTo(gateway, hourMs + Math.floor(random() * 50 * 60_000));
    await makeCalls(gateway, callers, calls, random, ticks);
    made += calls;
    if ((hourMs - beginMs) % (48 * HOUR_MS) === 0) say(`made-up usage: ${made} calls so far`);
  }
  await moveTo(gateway, nowMs - 60_000);
  await untilReported(world);
  say(`made-up usage: ${made} calls over ${DEMO_DAYS} days`);
}

async function openAccounts(admin: OperatorClient): Promise<Caller[]> {
  const callers: Caller[] = [];
  for (const account of ACCOUNTS) {
    const { id, name, creditUsd, markup, keys } = account;
    await admin.createAccount({
      id,
      name,
      plan: { markup_percent: markup },
      max_budget: creditUsd,
      budget_duration: "month",
    });
    await admin.call("POST", `/accounts/${id}/credits`, { amount_usd: creditUsd, reference: "made-up invoice 1" });
    for (const key of keys) {
      const fields: NewKey = { name: key, role: key === keys[0] ? "owner" : "member" };
      callers.push({ account, key: (await admin.createKey(id, fields)).key });
    }
  }
  return callers;
}

/** Any answer: the clock has moved before it is made. */
async function moveTo(gateway: string, ms: number): Promise<void> {
  const response = await fetch(`${gateway}/healthz`, { headers: { [DEMO_CLOCK]: String(ms) } });
  clockMs = Math.max(clockMs, ms);
  await response.arrayBuffer();
}
let clockMs = 0;

async function makeCalls(
  gateway: string,
  callers: readonly Caller[],
  count: number,
  random: () => number,
  ticks: () => number,
): Promise<void> {
  for (let first = 0; first < count; first += AT_ONCE) {
    let running = true;
    const calls = Array.from({ length: Math.min(AT_ONCE, count - first) }, () => makeCall(gateway, callers, random));
    const all = Promise.all(calls).finally(() => {
      running = false;
    });
    while (running) {
      await moveTo(gateway, clockMs + Math.floor(20 + ticks() * 60));
      await Promise.race([all, new Promise((resolve) => setTimeout(resolve, TICK_MS))]);
    }
    await all;
  }
}

const sharesUpTo = (index: number): number => ACCOUNTS.slice(0, index + 1).reduce((sum, { share }) => sum + share, 0);

function chosen(callers: readonly Caller[], random: () => number): Caller | undefined {
  const at = random();
  const account = ACCOUNTS.find((_, index) => at < sharesUpTo(index)) ?? ACCOUNTS[0];
  const own = callers.filter((caller) => caller.account === account);
  return own[Math.floor(random() * own.length)];
}

async function makeCall(gateway: string, callers: readonly Caller[], random: () => number): Promise<void> {
  const caller = chosen(callers, random);
  const prompt = PROMPTS[Math.floor(random() * PROMPTS.length)] ?? "";
  // One in fifty asks for what is not there, or leaves early.
  const [wrong, leaves] = [random() < 0.02, random() < 0.02];
  const model = wrong ? "llama-700b" : (MODELS[Math.floor(random() * MODELS.length)] ?? "");
  const embeds = model === "embed-small";
  const text = `${prompt} ${"More of it. ".repeat(Math.floor(random() ** 3 * 3_000))}`;
  const body = embeds
    ? { model, input: text }
    : {
        model,
        stream: random() < 0.7 || leaves,
        max_tokens: 64 + Math.floor(random() * 400),
        messages: [{ role: "user", content: text }],
      };
  const stop = new AbortController();
  const response = await fetch(`${gateway}/v1/${embeds ? "embeddings" : "chat/completions"}`, {
    method: "POST",
    headers: { authorization: `Bearer ${caller?.key}`, "content-type": "application/json" },
    body: JSON.stringify(body),
    signal: stop.signal,
  });
  if (leaves && response.ok) {
    stop.abort();
    // Its end is booked before the clock moves on by an hour.
    await new Promise((resolve) => setTimeout(resolve, BOOKED_MS));
    return;
  }
  await response.arrayBuffer();
}

const REPORTED_WITHIN_MS = 60_000;

/** Until nothing is held and every event stands in the reports: then the books of each account agree. */
async function untilReported({ gateway, adminToken }: DemoWorld): Promise<void> {
  const admin = new OperatorClient({ url: gateway, token: adminToken });
  const untilMs = Date.now() + REPORTED_WITHIN_MS;
  for (const { id } of ACCOUNTS) {
    for (;;) {
      const { ok, open_holds, outbox, problems } = await admin.audit(id);
      if (ok && open_holds === 0 && outbox === 0) break;
      if (Date.now() > untilMs) throw new Error(`the made-up books of ${id} do not agree: ${problems.join(", ")}`);
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  }
}
