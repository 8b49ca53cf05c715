/**
 * The cells of the matrix. Each acts through an unchanged client against the shared process; then the service's log and
 * the ledger are asked what became of every call that left: served ones were executed once and cost the price book
 * times what was used, refused ones were neither executed nor charged.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { eventually } from "../support/eventually.ts";
import { IN_FULL } from "../support/in-full.ts";
import type { Operator } from "../support/operator.ts";
import { type Names, owedNanoUsd, serviceFor, type Used } from "../support/service.ts";
import type { Tenant } from "../support/tenant.ts";
import { world } from "../support/world.ts";
import { MANNERS, type Manner, priced } from "./manners.ts";
import { CAPABILITIES, CLIENTS, type ClientId, IN_BOTH_MANNERS } from "./matrix.ts";

/** What an act has: a tenant with all of the service's models, and what a client is told of the gateway. */
export interface At {
  readonly operator: Operator;
  readonly tenant: Tenant;
  readonly names: Names;
  readonly baseURL: string;
  readonly apiKey: string;
  /** What left for the gateway so far in this act, and what came back. */
  readonly sent: readonly Sent[];
}

interface Sent {
  readonly method: string;
  readonly path: string;
  readonly status: number;
  readonly callId: string | null;
}

/** One cell: what is done, and how many calls it pays for. */
export interface Act {
  readonly paid: number;
  /** Their answers end early, so what was delivered is charged by the gateway's own count. */
  readonly cutShort?: boolean;
  readonly run: (at: At) => Promise<void>;
}

export const paying = (paid: number, run: Act["run"]): Act => ({ paid, run });
export const free = (run: Act["run"]): Act => ({ paid: 0, run });
export const cutShort = (paid: number, run: Act["run"]): Act => ({ paid, run, cutShort: true });

const { operator } = world();
let sent: Sent[] = [];

/** Notes what `fetch` sends to the gateway, and changes nothing of it, until the function that it gives is called. */
function listen(): () => void {
  const real = globalThis.fetch;
  globalThis.fetch = async (input, init) => {
    const response = await real(input, init);
    const { url, method } = input instanceof Request ? input : { url: String(input), method: init?.method ?? "GET" };
    const at = new URL(url);
    if (at.href.startsWith(operator.url) && at.pathname.startsWith("/v1/")) {
      const { status, headers } = response;
      sent.push({ method: method.toUpperCase(), path: at.pathname, status, callId: headers.get("x-request-id") });
    }
    return response;
  };
  return () => {
    globalThis.fetch = real;
  };
}

export type ActsOf<Id extends ClientId> = Readonly<Record<(typeof CLIENTS)[Id]["does"][number], Act>>;

/** Makes a test of each cell that the matrix has for this client. */
export function cells<Id extends ClientId>(id: Id, acts: ActsOf<Id>): void {
  const { name, does } = CLIENTS[id];
  let at: At;
  let manners: Readonly<Record<Manner, string>>;
  let lastExecution: number;
  const run = async (act: Act, chat: string) => {
    sent = [];
    await act.run({ ...at, names: { ...at.names, chat }, sent });
    lastExecution = await judge(at.tenant, sent, act, lastExecution);
  };

  describe(name, () => {
    let stopListening = () => {};
    beforeAll(async () => {
      stopListening = listen();
      const tenant = await operator.tenant({ balance_usd: 10 });
      const names = await serviceFor(operator, tenant);
      at = { operator, tenant, names, baseURL: `${operator.url}/v1`, apiKey: tenant.key, sent: [] };
      const named = MANNERS.map(async ({ model }) => [model, await priced(operator, tenant, model)] as const);
      manners = Object.fromEntries(await Promise.all(named)) as typeof manners;
      lastExecution = (await operator.sandbox.allExecutions()).at(-1)?.id ?? 0;
    });

    for (const capability of does) {
      const act = acts[capability as keyof ActsOf<Id>];
      const title = CAPABILITIES[capability];
      if (IN_BOTH_MANNERS.has(capability)) {
        for (const { model, words } of mannersFor(id)) test(`${title}: ${words}`, () => run(act, manners[model]));
      } else test(title, () => run(act, at.names.chat));
    }

    afterAll(async () => {
      stopListening();
      await eventually("no open hold", async () => (await at.tenant.audit()).open_holds === 0);
      expect(await at.tenant.audit()).toMatchObject({ ok: true, held_usd: 0, overrun_usd: 0, problems: [] });
    });
  });
}

/** In short what is harder for each client, the model that says the least, and both for one client. */
const mannersFor = (id: ClientId) => MANNERS.filter(({ model }) => IN_FULL || id === "openai" || model === "least-7b");

/** The most that an answer of a few words may cost if it is cut short; its hold is some times that. */
const CUT_SHORT_NANO_USD = owedNanoUsd({ input_tokens: 150, output_tokens: 20 });

const isPaid = ({ method, path, status }: Sent): boolean =>
  method === "POST" && status >= 200 && status < 300 && !path.endsWith("/cancel");

/** Gives the last execution so far: late in a run the whole log is megabytes. */
async function judge(tenant: Tenant, calls: readonly Sent[], act: Act, after: number): Promise<number> {
  const paid = calls.filter(isPaid);
  expect(paid).toHaveLength(act.paid);
  const charged = await eventually("a charge for each", async () => {
    const charges = new Map((await tenant.charges()).map((charge) => [charge.call_id, charge]));
    return paid.every(({ callId }) => charges.has(callId)) && charges;
  });
  const log = (await operator.sandbox.executionsAfter(after)) as Used[];
  for (const call of calls) {
    const executions = log.filter(({ request_id }) => request_id === call.callId);
    const nanoUsd = Math.round(0 - (charged.get(call.callId)?.amount_usd ?? 0) * 1e9);
    if (!isPaid(call)) {
      expect([call, executions, nanoUsd]).toEqual([call, [], 0]);
      continue;
    }
    expect(executions).toHaveLength(1);
    const owed = owedNanoUsd(executions[0]?.usage ?? {});
    if (act.cutShort) expect(nanoUsd).toBeLessThan(CUT_SHORT_NANO_USD);
    else expect([call.path, nanoUsd]).toEqual([call.path, owed]);
    expect(nanoUsd).toBeGreaterThan(0);
  }
  return log.at(-1)?.id ?? after;
}
