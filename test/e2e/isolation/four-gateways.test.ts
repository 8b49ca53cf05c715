/**
 * Four isolates of the gateway over HTTP: four Workers in one workerd whose account objects are the same. Hot keys are
 * admitted out of leases.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { chooseStorage } from "../../../bench/storage.ts";
import { makeBundles, type Subject, startSubject } from "../../../bench/subject.ts";
import { OperatorClient } from "../../../client/operator.ts";
import { eventually } from "../../support/eventually.ts";
import { IN_FULL } from "../../support/in-full.ts";
import { unique } from "../../support/operator.ts";
import { Sandbox } from "../../support/sandbox.ts";
import { allowedMs } from "../../support/slowness.ts";
import { world } from "../../support/world.ts";

const { sandboxUrl } = world();
const sandbox = new Sandbox(sandboxUrl);
let subject: Subject;
let operator: OperatorClient;

beforeAll(async () => {
  const place = { cores: null, storage: chooseStorage(false), leases: true, isolates: 4 };
  subject = await startSubject(await makeBundles(), Number(new URL(sandboxUrl).port), place);
  operator = new OperatorClient({ url: subject.urls[0] ?? "", token: subject.adminToken });
  await operator.putUpstream("sandbox", { base_url: sandboxUrl, api_key: "sandbox-key" });
});
afterAll(() => subject?.stop());

let nextInstance = 900_000_000;

/** An account of 1 USD with a key, and a model of its own. */
async function tenant(limits: object = {}) {
  const instance = ++nextInstance;
  const account = unique("t");
  await operator.createAccount({ id: account, name: account, balance_usd: 1 });
  await sandbox.addInstance(instance, "llama-7b");
  const model = `llama-7b:${instance}`;
  const unit = { cost_usd: 0.5, price_usd: 1 };
  await operator.putInstance(instance, { account, name: "llama-7b", upstreams: ["sandbox"] });
  await operator.putModel(model, {
    kind: "chat",
    prices: { input_tokens: unit, output_tokens: unit },
    max_output_tokens: 16,
  });
  const made = await operator.createKey(account, { name: "k", ...limits });
  const say = async (isolate: number) => {
    const answer = await fetch(`${subject.urls[isolate % 4]}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${made.key}`, "content-type": "application/json" },
      body: JSON.stringify({ model, messages: [{ role: "user", content: "hello" }], max_tokens: 5 }),
    });
    await answer.arrayBuffer();
    return answer.status;
  };
  return { account, id: made.id, model, say };
}

/** What was executed is charged, each once, and the books add up. */
async function expectBooks(account: string, model: string, served: number): Promise<void> {
  const audit = await eventually("nothing is held any more", async () => {
    const found = await operator.audit(account);
    return found.held_usd === 0 && found;
  });
  expect(audit).toMatchObject({ ok: true, problems: [] });
  const executed = (await sandbox.executions(model)).filter(({ executed }) => executed);
  const charges = (await operator.ledger(account)).filter(({ kind }) => kind === "charge");
  expect([executed.length, charges.length]).toEqual([served, served]);
}

describe("four gateways with the same objects", () => {
  test("of 200 calls on a limit of 50, exactly 50 are served, and 50 are executed and charged", async () => {
    const { account, model, say } = await tenant({ rpm_limit: 50 });
    const statuses: number[] = [];
    const client = async (at: number) => {
      for (let calls = 0; calls < 10; calls++) statuses.push(await say(at));
    };
    await Promise.all(Array.from({ length: 20 }, (_, at) => client(at)));
    expect(statuses.filter((status) => status === 200)).toHaveLength(50);
    expect(statuses.filter((status) => status === 429)).toHaveLength(150);
    await expectBooks(account, model, 50);
  });

  test("a key is revoked within 1.2 s, and no gateway serves a call that comes after the answer", async () => {
    for (let run = 0; run < (IN_FULL ? 50 : 2); run++) {
      const { account, id, model, say } = await tenant();
      let answered = false;
      const [served, late]: [number[], number[]] = [[], []];
      const client = async (at: number) => {
        for (let after = 0; after < 3; ) {
          const isLate = answered;
          if (isLate) after++;
          (isLate ? late : served).push(await say(at));
        }
      };
      const clients = Promise.all(Array.from({ length: 8 }, (_, at) => client(at)));
      await eventually("leases are out", async () => (await operator.audit(account)).open_leases > 1);
      const sinceMs = performance.now();
      await operator.call("DELETE", `/accounts/${account}/keys/${id}`);
      const tookMs = performance.now() - sinceMs;
      answered = true;
      await clients;
      expect(new Set(late)).toEqual(new Set([401]));
      expect(tookMs).toBeLessThan(allowedMs(1_200));
      await expectBooks(account, model, served.filter((status) => status === 200).length);
    }
  });
});
