/**
 * Clients that leave right after sending, or while a large answer waits for them, whatever the endpoint: what the
 * service carried out is charged, once, as its log has it. And conversations of many turns, left at some of them.
 */
import { describe, expect, test } from "vitest";
import { eventually, sleep } from "../../support/eventually.ts";
import { usageEventsOf } from "../../support/joined-books.ts";
import { RawClient } from "../../support/raw-client.ts";
import { type Asked, callOf, jsonTo, pricesOf, serviceFor, useOf } from "../../support/service.ts";
import type { Tenant } from "../../support/tenant.ts";
import { ScriptedUpstream } from "../../support/upstream.ts";
import { world } from "../../support/world.ts";

const { operator, stateDir } = world();

/** The request as bytes, on a socket that can be left at any moment. */
async function rawly(tenant: Tenant, { path, init }: Asked): Promise<RawClient> {
  const request = new Request(`http://t${path}`, init);
  const body = Buffer.from(await request.arrayBuffer()).toString("latin1");
  const head = [
    `POST ${path} HTTP/1.1`,
    "host: tollgate",
    `authorization: Bearer ${tenant.key}`,
    `content-type: ${request.headers.get("content-type")}`,
    `content-length: ${body.length}`,
  ];
  return new RawClient(operator.url, `${head.join("\r\n")}\r\n\r\n${body}`);
}

const STREAMS = ["chat", "responses", "speech"];

/** `told`: the operator's reports have all of it too. */
const atRest = (tenant: Tenant, told = false) =>
  eventually(
    "nothing is held",
    async () => {
      const audit = await tenant.audit();
      return audit.open_holds === 0 && (!told || audit.outbox === 0) && audit;
    },
    { withinMs: 12_000 },
  );

describe.concurrent("a client that leaves right after sending", () => {
  test.each(["embeddings", "rerank", "images", "transcription", "chat", "responses", "speech"])(
    "%s: what was carried out is charged, and nothing else",
    async (endpoint) => {
      const own = await operator.tenant({ balance_usd: 5 });
      const models = await serviceFor(operator, own);
      for (let index = 0; index < 12; index++) {
        const streams = index % 2 === 1 && STREAMS.includes(endpoint);
        const client = await rawly(own, callOf(endpoint, models[useOf(endpoint)], streams ? { stream: true } : {}));
        await sleep(index * 2);
        client.reset();
      }
      await sleep(300);
      const audit = await atRest(own, true);
      expect(audit).toMatchObject({ ok: true, problems: [], held_usd: 0 });
      const events = usageEventsOf(stateDir, own.account);
      const log = await operator.sandbox.callsOf(...events.map(({ event_id }) => event_id));
      const charges = await own.charges();
      const charged = new Map(charges.map(({ call_id, amount_usd }) => [call_id, -amount_usd]));
      expect(charged.size).toBe(charges.length);
      for (const { event_id } of events) {
        const executed = log.filter((one) => one.executed && one.request_id === event_id).length;
        if (executed > 0) expect([event_id, executed, (charged.get(event_id) ?? 0) > 0]).toEqual([event_id, 1, true]);
        // A stream may be left on its way to the service: it is charged as sent, for its input.
        else if (!STREAMS.includes(endpoint)) expect(charged.has(event_id)).toBe(false);
      }
      expect(audit.operator_loss_usd).toBe(0);
      expect(audit.overrun_usd).toBe(0);
    },
  );
});

test("speech that is left before the first sound is charged the length of its text", async () => {
  // Its headers say that the service took it; its sound is still to come, or lies in a buffer on the way.
  const upstream = await ScriptedUpstream.start(async (exchange) => {
    exchange.begin("audio/wav");
    await exchange.closedEarly;
  });
  try {
    const tenant = await operator.tenant();
    const id = await operator.upstream(upstream.url);
    const model = await operator.model(`silent-${id}`, {
      kind: "speech",
      prices: pricesOf("audio_seconds"),
      upstream: id,
    });
    const body = { model, input: "x".repeat(100), voice: "v", stream: true };
    const client = await rawly(tenant, jsonTo("/v1/audio/speech", body));
    await client.until("200 OK");
    client.reset();
    const audit = await atRest(tenant);
    expect(audit).toMatchObject({ ok: true, problems: [], operator_loss_usd: 0 });
    expect((await tenant.charges()).map(({ amount_usd }) => amount_usd)).toEqual([-0.024]);
  } finally {
    await upstream.stop();
  }
});

describe.concurrent("a client that takes nothing of a large answer", () => {
  test.each([
    // A stream is let go at once; what is not one is read to its end, for 25 s at most.
    ["/v1/audio/speech", "speech", "audio_seconds", { input: "paused speech", voice: "v", stream: true }],
    ["/v1/images/generations", "image", "images", { prompt: "paused image" }],
  ] as const)("of %s is let go, and charged", async (path, kind, unit, fields) => {
    const piece = "A".repeat(64 * 1024);
    const upstream = await ScriptedUpstream.start(async (exchange) => {
      exchange.begin(kind === "speech" ? "audio/wav" : "application/json");
      let open = true;
      void exchange.closedEarly.then(() => (open = false));
      const send = (text: string) => Promise.race([exchange.send(text), exchange.closedEarly]);
      if (kind === "image") await send('{"created":1,"data":[{"b64_json":"');
      for (let pieces = 0; open && (kind === "speech" || pieces < 320); pieces++) await send(piece);
      await send('"}]}');
      exchange.end();
    });
    try {
      const tenant = await operator.tenant();
      const id = await operator.upstream(upstream.url, { timeouts: { idle_ms: 700 } });
      const model = await operator.model(`paused-${kind}-${id}`, { kind, prices: pricesOf(unit), upstream: id });
      const pausedAtMs = Date.now();
      const client = await rawly(tenant, jsonTo(path, { model, ...fields }));
      await client.until("200 OK");
      client.pause();
      await eventually("a charge", async () => (await tenant.charges()).length > 0, { withinMs: 10_000 });
      expect(Date.now() - pausedAtMs).toBeGreaterThan(700);
      const audit = await atRest(tenant);
      expect(audit).toMatchObject({ ok: true, problems: [], operator_loss_usd: 0 });
      const [charge, ...others] = await tenant.charges();
      expect([charge?.amount_usd, others]).toEqual([kind === "image" ? -0.02 : expect.toSatisfy((usd) => usd < 0), []]);
      client.reset();
    } finally {
      await upstream.stop();
    }
  });
});

describe("a conversation", () => {
  /** `CONVERSATION_TURNS=200` has as many. */
  const TURNS = Number(process.env.CONVERSATION_TURNS ?? 30);

  test("of many turns, some of which are left, some of which fail: each pays for all that it reads", async () => {
    const tenant = await operator.tenant({ balance_usd: 50 });
    const { chat: model } = await serviceFor(operator, tenant);
    const second = await operator.key(tenant.account);
    let previous: string | undefined;
    let tokens = 0;
    let charged = 0;
    for (let turn = 0; turn < TURNS; turn++) {
      const body = {
        model,
        input: `turn ${turn} of a long conversation`,
        max_output_tokens: 20,
        sandbox_output_tokens: 8,
        ...(previous !== undefined && { previous_response_id: previous }),
      };
      if (turn % 10 === 9) {
        // Left in the middle: it pays for the whole conversation, and the next turn goes on from the one before.
        const before = (await tenant.charges()).length;
        const slow = { ...body, stream: true, sandbox_frame_delay_ms: 100 };
        const client = await rawly(tenant, jsonTo("/v1/responses", slow));
        await client.until("output_text.delta");
        client.reset();
        const left = await eventually("a charge", async () => (await tenant.charges())[before]);
        expect(-left.amount_usd * 1e6).toBeGreaterThanOrEqual(2 * 0.9 * tokens);
        continue;
      }
      if (turn % 10 === 5) {
        const unknown = { ...body, previous_response_id: `${previous}x` };
        expect((await tenant.fetch("/v1/responses", jsonTo("", unknown).init)).status).toBe(404);
      }
      // Keys of one account share its conversations.
      const { init } = jsonTo("", body);
      const headers = { ...(init.headers as Record<string, string>), authorization: `Bearer ${second.key}` };
      const response = await tenant.fetch("/v1/responses", turn % 2 ? { ...init, headers } : init);
      expect(response.status).toBe(200);
      const { id, usage } = (await response.json()) as { id: string; usage: Record<string, number> };
      expect(usage.input_tokens).toBeGreaterThan(tokens);
      tokens = usage.total_tokens ?? 0;
      previous = id;
      charged++;
    }
    const audit = await atRest(tenant);
    expect(audit).toMatchObject({ ok: true, problems: [], overrun_usd: 0, operator_loss_usd: 0 });
    expect((await tenant.charges()).length).toBe(charged + Math.floor(TURNS / 10));
  });
});
