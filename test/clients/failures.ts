/** What every client must do where the account or the service says no, breaks off, or is left. */
import { expect } from "vitest";
import { eventually } from "../support/eventually.ts";
import type { Execution } from "../support/sandbox.ts";
import { instanceFor } from "../support/service.ts";
import { type Act, type At, cutShort, free, paying } from "./cells.ts";
import type { FAILURES } from "./matrix.ts";
import { SPOKEN } from "./scenes.ts";

/** What a client is told of the gateway, and the model that it is to ask. */
export interface Told {
  readonly baseURL: string;
  readonly apiKey: string;
  readonly model: string;
}

/** A client's chat, as it comes: with its own repeats. */
export interface Chat {
  /** One question; gives the answer's text. */
  ask(told: Told): Promise<string>;
  /** The same, piece by piece. */
  stream(told: Told): AsyncIterable<string>;
  /** What its own error says was the status. */
  statusOf(error: unknown): unknown;
}

export const failuresOf = (chat: Chat): Record<(typeof FAILURES)[number], Act> => ({
  refusals: free(async (at) => {
    const told: unknown[] = [];
    for (const { apiKey, model } of await refused(at)) {
      const answer = chat.ask({ ...at, apiKey, model });
      told.push(
        await answer.then(
          () => "served",
          (error: unknown) => chat.statusOf(error),
        ),
      );
    }
    expect(told).toEqual([401, 402, 403, 404]);
    expect(at.sent.map(({ status }) => status)).toEqual(told);
  }),

  busy: paying(2, async (at) => {
    const { apiKey, ended } = await busyKey(at);
    expect(await chat.ask({ ...at, apiKey, model: at.names.chat })).toMatch(SPOKEN);
    await ended;
    // How often it is told to come back depends on how long the other call takes here.
    expect(at.sent.map(({ status }) => status).join(" ")).toMatch(/^200( 429)+ 200$/);
  }),

  unavailable: paying(1, async (at) => {
    // Once for the call and once for each of the gateway's own repeats.
    const model = await faulty(at, { fault: "status", status: 503, times: 3 });
    expect(await chat.ask({ ...at, model })).toMatch(/\w/);
    expect(at.sent.map(({ status }) => status)).toEqual([503, 200]);
  }),

  broken: cutShort(1, async (at) => {
    const model = await faulty(at, { fault: "truncate", after_frames: 6 });
    let words = "";
    const read = async () => {
      for await (const piece of chat.stream({ ...at, model })) words += piece;
    };
    await expect(read()).rejects.toBeInstanceOf(Error);
    expect(words).toMatch(/\w/);
  }),

  leaving: cutShort(1, async (at) => {
    // Slow enough that the service notices long before the end.
    const model = await faulty(at, { fault: "pace", ms: 40 });
    for await (const piece of chat.stream({ ...at, model })) if (piece !== "") break;
    const [execution] = await eventually("the end at the service", async () => {
      const log = await at.operator.sandbox.executions(model);
      return log.some(isEnded) && log;
    });
    expect(execution).toMatchObject({ answered: true, closed_early: true });
  }),
});

const isEnded = ({ ended_ms }: Execution): boolean => ended_ms !== null;

/** Keys and models that are refused with 401, 402, 403 and 404. */
async function refused({ operator, tenant, apiKey, names }: At) {
  const [bound, poor] = await Promise.all([
    operator.key(tenant.account, { models: ["other-*"] }),
    operator.tenant({ balance_usd: 0.000001 }),
  ]);
  const target = { upstream: "sandbox", model: await operator.instance(poor) };
  return [
    { apiKey: `${apiKey.slice(0, -1)}${apiKey.endsWith("a") ? "b" : "a"}`, model: names.chat },
    { apiKey: poor.key, model: await operator.alias(poor, [target]) },
    { apiKey: bound.key, model: names.chat },
    { apiKey, model: "no-such-model" },
  ];
}

/** A key with one slot, which is taken for most of a second. */
async function busyKey({ operator, tenant, names }: At): Promise<{ apiKey: string; ended: Promise<unknown> }> {
  const { key } = await operator.key(tenant.account, { max_parallel_requests: 1 });
  const messages = [{ role: "user", content: "Hi" }];
  const slow = { sandbox_output_tokens: 8, sandbox_frame_delay_ms: 70 };
  const occupant = await tenant.post(
    { model: names.chat, messages, stream: true, ...slow },
    { headers: { authorization: `Bearer ${key}` } },
  );
  return { apiKey: key, ended: occupant.text() };
}

/** An instance that meets a fault. */
async function faulty({ operator, tenant }: At, fault: Record<string, unknown>): Promise<string> {
  const { model } = await instanceFor(operator, tenant, "chat");
  await operator.sandbox.fault(model, fault);
  return model;
}
