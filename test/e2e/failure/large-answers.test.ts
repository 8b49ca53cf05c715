/**
 * Large JSON answers through the real process, in one of its own, whose memory is measured: executed once, charged
 * exactly, and never held.
 */
import { existsSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { eventually, sleep } from "../../support/eventually.ts";
import { forgetPeak, residentMb } from "../../support/memory.ts";
import { Operator } from "../../support/operator.ts";
import { TollgateProcess } from "../../support/process.ts";
import type { Tenant } from "../../support/tenant.ts";
import { completion, type Exchange, ScriptedUpstream } from "../../support/upstream.ts";

const MB = 1024 * 1024;
let tollgate: TollgateProcess;
let operator: Operator;
let tenant: Tenant;
let upstream: ScriptedUpstream;
let script: (exchange: Exchange) => void | Promise<void>;
let embedding: string;
let chat: string;

beforeAll(async () => {
  tollgate = await TollgateProcess.start();
  operator = new Operator(tollgate);
  tenant = await operator.tenant();
  upstream = await ScriptedUpstream.start((exchange) => script(exchange));
  const first = await operator.upstream(upstream.url);
  const second = await operator.upstream(upstream.url);
  const alias = async (name: string, fields: object) => {
    const model = await operator.model(name, { upstream: first, ...fields });
    return operator.alias(
      tenant,
      [first, second].map((id) => ({ upstream: id, model })),
    );
  };
  embedding = await alias("vectors", { kind: "embedding", prices: { input_tokens: { cost_usd: 1 } } });
  chat = await alias("words", {});
});
afterAll(async () => {
  await upstream?.stop();
  await tollgate?.stop();
});

/** Runs it, and tells by how many MB the gateway grew at most; null where that cannot be measured. */
async function growthMb(act: () => Promise<void>): Promise<number | null> {
  const pid = tollgate.workerdPid();
  if (!existsSync(`/proc/${pid}/clear_refs`)) {
    await act();
    return null;
  }
  forgetPeak(pid);
  const before = residentMb(pid).now;
  await act();
  return residentMb(pid).peak - before;
}

/** Sends pieces at the pace of whoever reads them. */
async function sendAll(exchange: Exchange, pieces: Iterable<string>): Promise<void> {
  for (const piece of pieces) {
    const gone = await Promise.race([exchange.send(piece), exchange.closedEarly]);
    if (typeof gone === "number") return;
  }
  exchange.end();
}

const INPUTS = 2_048;
const VECTOR = `[${"-0.0123456789012,".repeat(1_535)}1]`;
function* vectors(): Generator<string> {
  yield '{"object":"list","provider":"hidden","data":[';
  for (let index = 0; index < INPUTS; index++) {
    yield `${index ? "," : ""}{"object":"embedding","index":${index},"embedding":${VECTOR}}`;
  }
  yield '],"model":"vectors","usage":{"prompt_tokens":6144,"total_tokens":6144,"cost":0.25}}';
}
const whole = [...vectors()].join("").replace('"provider":"hidden",', "").replace(',"cost":0.25', "");
const charged = (amountUsd: number, from: number) =>
  eventually("one charge", async () => {
    const all = (await tenant.charges()).slice(from);
    expect(all.map(({ amount_usd }) => amount_usd)).toEqual([expect.closeTo(-amountUsd, 9)]);
    return true;
  });

const embed = () =>
  tenant.fetch("/v1/embeddings", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: embedding, input: Array.from({ length: INPUTS }, (_, index) => `text ${index}`) }),
  });

describe(`2,048 embeddings of 1,536, ${Math.round(whole.length / MB)} MB`, () => {
  test("pass byte for byte but for what is the operator's, are executed once and charged exactly, and are not held", async () => {
    // What the first call of all costs is no large answer's.
    script = (exchange) => exchange.answer({ data: [], usage: { prompt_tokens: 1 } });
    for (let call = 0; call < 5; call++) await (await embed()).text();
    await eventually("small charges", async () => (await tenant.charges()).length === 5);
    const from = 5;
    const executed = upstream.exchanges.length;
    script = (exchange) => {
      exchange.begin("application/json");
      return sendAll(exchange, vectors());
    };
    const grown = await growthMb(async () => {
      const response = await embed();
      expect(response.status).toBe(200);
      const text = await response.text();
      expect(text === whole).toBe(true);
    });
    await charged(6144e-6, from);
    expect(upstream.exchanges.length - executed).toBe(1);
    if (grown !== null) {
      console.log(`a large answer: workerd grew by ${grown} MB`);
      expect(grown).toBeLessThan(30);
    }
  });

  test("cut off in the middle never end as if they were whole, and are charged by own count, once", async () => {
    const from = (await tenant.charges()).length;
    const executed = upstream.exchanges.length;
    script = async (exchange) => {
      exchange.begin("application/json");
      let bytes = 0;
      for (const piece of vectors()) {
        await exchange.send(piece);
        bytes += piece.length;
        if (bytes > 10 * MB) return exchange.cut();
      }
    };
    const response = await embed();
    expect(response.status).toBe(200);
    await expect(response.text()).rejects.toThrow();
    await eventually("one charge", async () => (await tenant.charges()).length === from + 1);
    expect((await tenant.charges()).at(-1)?.amount_usd).toBeLessThan(-INPUTS * 1e-6);
    expect(upstream.exchanges.length - executed).toBe(1);
  });

  test("hold their upstream back while their client does not read", async () => {
    const from = (await tenant.charges()).length;
    let sentBytes = 0;
    script = (exchange) => {
      exchange.begin("application/json");
      const counted = function* () {
        for (const piece of vectors()) {
          yield piece;
          sentBytes += piece.length;
        }
      };
      return sendAll(exchange, counted());
    };
    const grown = await growthMb(async () => {
      const response = await embed();
      await sleep(1_500);
      expect(sentBytes).toBeLessThan(20 * MB);
      expect((await response.text()).length).toBe(whole.length);
    });
    if (grown !== null) expect(grown).toBeLessThan(40);
    await charged(6144e-6, from);
  });
});

test("30 MB of {} from an engine cost the gateway no more than their bytes: one execution, one charge", async () => {
  const from = (await tenant.charges()).length;
  const executed = upstream.exchanges.length;
  const piece = "{},".repeat(20_000);
  script = (exchange) => {
    exchange.begin("application/json");
    const pieces = function* () {
      yield '{"choices":[';
      for (let bytes = 0; bytes < 30 * MB; bytes += piece.length) yield piece;
      yield '{}],"usage":{"prompt_tokens":4,"completion_tokens":2}}';
    };
    return sendAll(exchange, pieces());
  };
  let longestMs = 0;
  let done = false;
  const beside = async () => {
    while (!done) {
      const startedAt = performance.now();
      expect((await tenant.fetch("/v1/models")).status).toBe(200);
      longestMs = Math.max(longestMs, performance.now() - startedAt);
      await sleep(20);
    }
  };
  const others = beside();
  const grown = await growthMb(async () => {
    const response = await tenant.post({ model: chat, messages: [{ role: "user", content: "Hi" }] });
    expect(response.status).toBe(200);
    expect((await response.text()).length).toBeGreaterThan(30 * MB);
  });
  done = true;
  await others;
  await charged(6e-6, from);
  expect(upstream.exchanges.length - executed).toBe(1);
  console.log(`30 MB of {}: workerd grew by ${grown} MB, others waited at most ${Math.round(longestMs)} ms`);
  if (grown !== null) expect(grown).toBeLessThan(30);
});

test("an upstream's costs and names are in no answer, and the next target is asked where one breaks off early", async () => {
  const from = (await tenant.charges()).length;
  let turn = 0;
  script = (exchange) => {
    if (turn++ === 0) {
      exchange.begin("application/json");
      return exchange.send(`{"choices":[${"{},".repeat(400_000 / 4)}`).then(() => exchange.cut());
    }
    const usage = { prompt_tokens: 5, completion_tokens: 5, cost: 0.25, provider: "hidden" };
    exchange.answer({ ...completion("words"), usage, provider: "hidden", account_id: "acc_1" });
  };
  const answer = await tenant.chat({ model: chat });
  expect(answer.status).toBe(200);
  expect(answer.body).toEqual({
    ...completion("words"),
    usage: { prompt_tokens: 5, completion_tokens: 5 },
  });
  await charged(10e-6, from);
  expect(await tenant.audit()).toMatchObject({ ok: true, open_holds: 0, held_usd: 0 });
});
