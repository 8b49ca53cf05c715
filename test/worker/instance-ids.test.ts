/**
 * Somebody else's instance id and one that nobody has are told apart by nothing: the same answer, byte for byte, and
 * the same look-ups on the way to it, so that the time it takes says nothing either.
 */
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import worker from "../../src/index.ts";
import { fakeClock } from "../support/worker/account-support.ts";
import { Counter, type Counts, type Worker } from "../support/worker/counting.ts";
import { done, type Json, settled } from "../support/worker/operator.ts";
import { keyOf } from "../support/worker/tenant.ts";

let tick: (byMs: number) => void;
let caller: Json;

beforeAll(async () => {
  tick = fakeClock();
  await done("PUT", "/upstreams/ids", { base_url: "https://ids.test", api_key: "k" });
  for (const id of ["ids-mine", "ids-theirs"]) {
    await done("POST", "/accounts", { id, name: id, balance_usd: 5 });
  }
  const theirs = { account: "ids-theirs", upstreams: ["ids"] };
  await done("PUT", "/instances/4001", { ...theirs, name: "llama" });
  await done("PUT", "/instances/4002", { ...theirs, name: "tool", kind: "custom", custom_api_path: "run" });
  await done("PUT", "/instances/4003", { account: "ids-mine", upstreams: ["ids"], name: "llama" });
  caller = await keyOf("ids-mine");
  await settled();
});
afterEach(() => vi.restoreAllMocks());
afterAll(async () => {
  vi.useRealTimers();
  await settled();
});

const chat = (model: string) =>
  ["/v1/chat/completions", { model, messages: [{ role: "user", content: "x" }] }] as const;
const images = (model: string) => ["/v1/images/generations", { model, prompt: "x" }] as const;
const custom = (id: string, path = "run") => [`/inference-instances/${id}/proxy/${path}`, "x"] as const;

/** What each asks for in place of the id that nobody has. */
const ASKS: [what: string, unknown: readonly [string, unknown], other: readonly [string, unknown]][] = [
  ["a model of theirs", chat("llama:9999"), chat("llama:4001")],
  ["their id under another name", chat("llama:9999"), chat("mistral:4001")],
  ["an id of one's own under another name", chat("llama:9999"), chat("mistral:4003")],
  ["their custom instance as a model", chat("tool:9999"), chat("tool:4002")],
  ["a model of theirs at an endpoint of another kind", images("llama:9999"), images("llama:4001")],
  ["their custom instance", custom("9999"), custom("4002")],
  ["another path of it", custom("9999", "no"), custom("4002", "no")],
  ["their model by the custom path", custom("9999"), custom("4001")],
  ["what is no id", custom("9999"), custom("0x4002")],
];

/** The look-ups of the question before are forgotten; key and routes are known. */
async function warm(counter: Counter) {
  tick(31_000);
  const headers = { authorization: `Bearer ${caller.key}` };
  await counter.call(worker as unknown as Worker, new Request("http://gateway.test/v1/models", { headers }));
  counter.restart();
}

async function told(counter: Counter, [path, body]: readonly [string, unknown]) {
  await warm(counter);
  const text = typeof body === "string" ? body : JSON.stringify(body);
  const headers = { authorization: `Bearer ${caller.key}`, "content-type": "application/json" };
  const request = new Request(`http://gateway.test${path}`, { method: "POST", headers, body: text });
  let answered: Headers | undefined;
  const noting: Worker = {
    fetch: async (...given) => {
      const response = await (worker as unknown as Worker).fetch(...given);
      answered = new Headers(response.headers as unknown as HeadersInit);
      return response;
    },
  };
  const answer = await counter.call(noting, request);
  const shown = [...(answered ?? new Headers())].filter(([name]) => !name.endsWith("request-id"));
  return { ...answer, headers: shown, counts: counter.counts() };
}

describe("an id that is not one's own", () => {
  it.each(ASKS)("%s answers as one that nobody has, after the same look-ups", async (_, unknown, other) => {
    const counter = new Counter(() => new Response());
    vi.spyOn(console, "log").mockImplementation(() => undefined);
    const nobody = await told(counter, unknown);
    const theirs = await told(counter, other);
    expect(nobody.status).toBe(401);
    expect(theirs).toEqual(nobody);
    const looked: Partial<Counts> = { d1Statements: 1, rpcs: 1, subrequests: 0 };
    expect(nobody.counts).toMatchObject(looked);
  });

  it("their instance is no model that one can look at", async () => {
    const request = (model: string) =>
      new Request(`http://gateway.test/v1/models/${model}`, { headers: { authorization: `Bearer ${caller.key}` } });
    const counter = new Counter(() => new Response());
    const of = async (model: string) => {
      await warm(counter);
      const { status, text } = await counter.call(worker as unknown as Worker, request(model));
      return { status, text: text.replaceAll(model, ""), counts: counter.counts() };
    };
    const nobody = await of("llama:9999");
    expect(nobody.status).toBe(404);
    expect(await of("llama:4001")).toEqual(nobody);
  });
});
