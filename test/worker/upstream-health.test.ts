/** How an upstream does by what calls report, what is in flight there, and targets that are drained. */

import { env } from "cloudflare:workers";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import type { Try } from "../../src/core/account/call-trace.ts";
import type { UsageEvent } from "../../src/core/account/hold.ts";
import { accountObject } from "../../src/platform/account/stub.ts";
import { readSecrets } from "../../src/platform/secrets.ts";
import { call as callId, progress, request } from "../support/worker/account-support.ts";
import { call, done, type Json, refusal, settled } from "../support/worker/operator.ts";
import { keyOf } from "../support/worker/tenant.ts";
import { deliver, emptyUsage, event, message } from "../support/worker/usage-support.ts";

const NOW = Date.now();
beforeAll(async () => {
  for (const id of ["near", "far"])
    await done("PUT", `/upstreams/${id}`, { base_url: "https://x.example", api_key: "k" });
});
beforeEach(emptyUsage);
afterEach(() => vi.restoreAllMocks());
afterAll(settled);

const tried = (upstream: string, result: string, ms = 10): Try => ({ upstream, model: "m", result, ms });
const ended = (agoMs: number, tries: Try[], some: Partial<UsageEvent> = {}): UsageEvent =>
  event({
    endedAtMs: NOW - agoMs,
    startedAtMs: NOW - agoMs - 100,
    detail: { stream: true, heldNanoUsd: 1, prices: {}, costs: null, entry: null, tries },
    ...some,
  });
const health = (query = ""): Promise<Json> => done("GET", `/upstreams/near/health${query}`);

describe("the health of an upstream", () => {
  it("is what the calls of the last minutes say of their tries there, and of no other's", async () => {
    await deliver([
      message(
        ended(60_000, [tried("near", "answered", 20)], { firstByteMs: 25 }),
        ended(50_000, [tried("near", "status_503"), tried("far", "answered")]),
        ended(40_000, [tried("near", "lost"), tried("far", "answered")]),
        ended(30_000, [tried("near", "refused"), tried("far", "answered")]),
        ended(10 * 60_000, [tried("near", "answered")]),
        event({ endedAtMs: NOW }),
      ),
    ]);
    const shown = await health();
    expect(shown).toMatchObject({
      upstream: "near",
      state: "down",
      targets: [
        {
          model: "m",
          state: "down",
          tries: 4,
          results: { answered: 1, status_503: 1, lost: 1, refused: 1 },
          try_ms: { p50: 20, p95: 20, p99: 20 },
          first_byte_ms: { p50: 25, p99: 25 },
          last_answered_at: new Date(NOW - 60_000).toISOString(),
          last_failed_at: new Date(NOW - 30_000).toISOString(),
        },
      ],
      in_flight: null,
    });
    expect(shown.errors.map(({ result }: Json) => result)).toEqual(["refused", "lost", "status_503"]);
    expect(shown.errors[0].call).toMatch(/./);
    expect((await health("?minutes=30")).targets[0].tries).toBe(5);
    expect(await done("GET", "/upstreams/far/health")).toMatchObject({ state: "up" });
  });

  it("is idle where nobody called, and 404 for an upstream that is not there", async () => {
    expect(await health()).toMatchObject({ state: "idle", targets: [], errors: [] });
    expect(await call("GET", "/upstreams/none/health")).toMatchObject(refusal(404, "not_found", "upstream"));
    expect(await call("GET", "/upstreams/near/health?minutes=0")).toMatchObject(
      refusal(400, "invalid_request_error", "minutes"),
    );
  });

  it("shows what accounts have in flight there, where it is asked for", async () => {
    const { number } = await done("POST", "/accounts", { id: "flying", name: "F", balance_usd: 1 });
    const { key } = await keyOf("flying");
    const object = accountObject(env, number);
    const keyDigest = await digest(key);
    for (const id of ["there", "elsewhere", "young"]) await object.admit(request(id, 1, { keyDigest }));
    const servedBy = (upstream: string) => ({ upstream, model: "m", region: null });
    await object.renew(callId("there"), { ...progress(1), servedBy: servedBy("near") });
    await object.renew(callId("elsewhere"), { ...progress(1), servedBy: servedBy("far") });
    const { in_flight } = await health("?in_flight=true");
    expect(in_flight).toMatchObject({ calls: 1, young_calls: 1, jobs: 0, complete: true });
    expect(in_flight.accounts_asked).toBeGreaterThan(0);
  });
});

describe("a target that is drained", () => {
  const target = (upstream: string, some: object = {}) => ({ upstream, model: `m-${upstream}`, ...some });

  it("is shown so, and one target has to take calls", async () => {
    await done("PUT", "/aliases/drained", { targets: [target("near", { drain: true }), target("far")] });
    expect((await done("GET", "/aliases/drained")).targets).toMatchObject([{ drain: true }, { drain: false }]);
    const all = [target("near", { drain: true }), target("far", { drain: true })];
    expect(await call("PATCH", "/aliases/drained", { targets: all })).toMatchObject(
      refusal(400, "invalid_request_error", "targets"),
    );
    expect(
      (await done("PATCH", "/aliases/drained", { targets: [target("near"), target("far")] })).targets,
    ).toMatchObject([{ drain: false }, { drain: false }]);
  });
});

async function digest(key: string) {
  const secrets = await readSecrets(env);
  if (!secrets.ok) throw new Error("no secrets");
  return secrets.secrets.digestOf(key);
}
