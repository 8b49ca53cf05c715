/**
 * The pipeline's ports in memory, for tests of the pipeline in Node: one account whose object admits what it is told
 * to, upstreams that answer by script, and a record of every call to either.
 */
import { createHmac } from "node:crypto";
import { signedPart, tagOf } from "../../src/core/account/api-key.ts";
import type { FreeCall } from "../../src/core/account/free-calls.ts";
import type {
  Admission,
  AdmitRequest,
  HoldEnd,
  Permission,
  Progress,
  QueuedEnd,
  Release,
  Settlement,
} from "../../src/core/account/hold.ts";
import type { Lease, LeaseAsk, LeaseReport, ReportAnswer } from "../../src/core/account/lease.ts";
import type { Inquired, Inquiry } from "../../src/core/account/precheck.ts";
import type { ComputeAnswer, ComputeRequest } from "../../src/core/compute/calls.ts";
import {
  type AccountId,
  type AccountNumber,
  asId,
  type CallId,
  type KeyDigest,
  type KeyId,
} from "../../src/core/ids.ts";
import type { IsolateLeases } from "../../src/core/leases/isolate-leases.ts";
import type { Owned } from "../../src/core/owned.ts";
import type { ModelRow } from "../../src/core/pricing/prices.ts";
import { aliasKey, DEFAULT_TIMEOUTS, type RoutingSnapshot, type Target } from "../../src/core/routing/routes.ts";
import { Health } from "../../src/core/routing/target-health.ts";
import { ANSWER_ROOM_BYTES, BodyRoom } from "../../src/core/uploads/upload-limiter.ts";
import type { JobView, NewJob } from "../../src/core/video/jobs.ts";
import type { LogLine, Ports, UpstreamAnswer, UpstreamRequest } from "../../src/gateway/ports.ts";
import { after } from "../../src/gateway/timer.ts";

const PEPPER = "pepper-of-the-tests-0123456789abcdef";
const hmac = (text: string) => new Uint8Array(createHmac("sha256", PEPPER).update(text).digest());
export const ACCOUNT = asId<AccountId>("acme");
const NUMBER = asId<AccountNumber>(7);

/** A key whose tag is right. `seed`: another seed, another key. */
const noCompute = () => Promise.reject(new Error("these tests make no compute calls"));

export function makeKey(seed = 1): string {
  const signed = signedPart(NUMBER, new Uint8Array(48).fill(seed));
  return signed + tagOf(hmac(signed));
}

export const ROW: ModelRow = {
  model: "chat",
  kind: "chat",
  fromMs: 0,
  costNanoUsd: { input_tokens: 1_000_000, output_tokens: 2_000_000 },
  priceNanoUsd: {},
  free: false,
  maxOutputTokens: 1000,
};

const target = (model: string, priority: number): Target => ({ upstream: "u", model, priority, weight: 1 });

/** One alias `chat` with a first and a second target. */
export const ROUTING: RoutingSnapshot = {
  builtAtMs: 0,
  upstreams: {
    u: { id: "u", baseUrl: "http://u.test", region: "r1", shared: false, sealedApiKey: "", timeouts: DEFAULT_TIMEOUTS },
  },
  aliases: {
    [aliasKey(null, "chat")]: {
      alias: "chat",
      account: null,
      targets: [target("first:1", 0), target("second:2", 1)],
      retryOn: [],
    },
  },
  models: { chat: [ROW] },
  instances: {},
};

/** What was sent to a target. */
interface SentCall {
  readonly target: Target;
  readonly request: UpstreamRequest;
  /** Its fields where it is JSON. */
  readonly body: Record<string, unknown>;
}
export type Script = (call: SentCall) => UpstreamAnswer | Promise<UpstreamAnswer>;

/** A key that may call everything, asking about these ids. */
export const grantTo = (owned: readonly Owned[]): Permission & { ok: true } => ({
  ok: true,
  keyId: asId<KeyId>("key"),
  teamId: null,
  accountId: ACCOUNT,
  models: null,
  rates: {},
  owned,
});

export interface FakeWorld {
  readonly ports: Ports;
  readonly admitted: AdmitRequest[];
  readonly settled: Settlement[];
  readonly released: Release[];
  /** Questions that hold nothing, and jobs that were begun. */
  readonly asked: Inquiry[];
  readonly begun: NewJob[];
  /** Ends that went by the queue. */
  readonly queued: QueuedEnd[];
  /** What was said of leases. */
  readonly reported: LeaseReport[];
  readonly sent: SentCall[];
  readonly logged: LogLine[];
  /** Resolves when everything registered with `waitUntil` has ended. */
  idle(): Promise<void>;
}

export interface FakeOptions {
  readonly script: Script;
  readonly admit?: (request: AdmitRequest) => Admission | Promise<Admission>;
  readonly routing?: RoutingSnapshot;
  readonly knownKeys?: readonly string[];
  readonly holdLifeMs?: number;
  readonly onDisconnect?: "cancel" | "drain";
  readonly settle?: (settlement: Settlement) => Promise<HoldEnd>;
  readonly renew?: (callId: CallId, progress: Progress | null) => Promise<boolean>;
  readonly longestCallMs?: number;
  readonly inquire?: (inquiry: Inquiry) => Inquired;
  readonly begin?: (job: NewJob) => Promise<void>;
  readonly job?: JobView;
  readonly bodies?: BodyRoom;
  readonly mediumBodies?: BodyRoom;
  readonly answers?: BodyRoom;
  readonly leases?: IsolateLeases;
  readonly lease?: (ask: LeaseAsk) => Lease | null;
  readonly report?: (said: LeaseReport) => Promise<ReportAnswer>;
  readonly authorize?: (free: FreeCall | undefined) => Promise<Permission>;
  readonly compute?: (request: ComputeRequest) => Promise<ComputeAnswer>;
}

export function fakeWorld(options: FakeOptions): FakeWorld {
  const admitted: AdmitRequest[] = [];
  const settled: Settlement[] = [];
  const released: Release[] = [];
  const asked: Inquiry[] = [];
  const begun: NewJob[] = [];
  const queued: QueuedEnd[] = [];
  const reported: LeaseReport[] = [];
  const sent: SentCall[] = [];
  const logged: LogLine[] = [];
  const background: Promise<unknown>[] = [];
  const known = new Set(options.knownKeys ?? [makeKey()]);
  const digests = new Set([...known].map((key) => Buffer.from(hmac(key)).toString("hex")));
  const grant = (request: AdmitRequest): Admission => ({
    ok: true,
    owned: [],
    rates: { requests: { limit: 50, remaining: 49, resetMs: 1500 } },
    hold: {
      callId: request.callId,
      keyId: asId<KeyId>("key_1"),
      amountNanoUsd: 1,
      outputCap: request.bound.output?.cap,
      livesMs: options.holdLifeMs ?? 120_000,
      longestCallMs: options.longestCallMs ?? 3_600_000,
      onDisconnect: options.onDisconnect ?? "cancel",
    },
  });
  let calls = 0;
  const routing = options.routing ?? ROUTING;
  const ports: Ports = {
    directory: {
      recentCaller: () => undefined,
      findCaller: async (number, digest) =>
        digests.has(digest)
          ? { account: ACCOUNT, number, keyId: asId<KeyId>("key_1"), digest: asId<KeyDigest>(digest) }
          : undefined,
      routing: async () => routing,
      refresh: async () => routing,
    },
    secrets: { hmac: async (text) => hmac(text) },
    upstreams: {
      health: new Health(),
      send: async (target, request) => {
        const isJson = request.contentType === "application/json";
        const body = isJson ? JSON.parse(Buffer.concat(request.body ?? []).toString()) : {};
        // The gateway frees its own once the answer passes.
        const copy = request.body?.map((piece) => piece.slice()) ?? null;
        const call = { target, request: { ...request, body: copy }, body };
        sent.push(call);
        return options.script(call);
      },
      scrub: (message) => message.replaceAll("u.test", "[removed]"),
    },
    services: { pass: async () => ({ kind: "unusable" }) },
    bodies: options.bodies ?? new BodyRoom(),
    mediumBodies: options.mediumBodies ?? BodyRoom.forMedium(),
    answers: options.answers ?? new BodyRoom(ANSWER_ROOM_BYTES),
    leases: options.leases ?? null,
    account: () => ({
      openService: async () => ({ ok: false, refusal: { kind: "internal" } }),
      admit: async (request, ask) => {
        admitted.push(request);
        const admission = await (options.admit ?? grant)(request);
        return ask ? { ...admission, lease: options.lease?.(ask) ?? null } : admission;
      },
      report: async (said) => {
        reported.push(said);
        return options.report?.(said) ?? { leases: said.asks.map(() => null) };
      },
      settle: async (settlement) => {
        settled.push(settlement);
        return options.settle?.(settlement) ?? { state: "settled", chargedNanoUsd: 0 };
      },
      release: async (release) => {
        released.push(release);
        return { state: "released", chargedNanoUsd: 0 };
      },
      renew: async (callId, progress) => options.renew?.(callId, progress) ?? true,
      recordOwnership: async () => undefined,
      forgetOwned: async () => undefined,
      compute: options.compute ?? noCompute,
      inquire: async (inquiry) => {
        asked.push(inquiry);
        return options.inquire?.(inquiry) ?? { ok: true, prices: inquiry.row.costNanoUsd, rates: {} };
      },
      begin: async (job) => {
        begun.push(job);
        await options.begin?.(job);
      },
      job: async () => options.job ?? { ok: false, refusal: { kind: "id_not_found", what: "video job" } },
      authorize: async (_, free) => options.authorize?.(free) ?? grantTo([]),
    }),
    broker: () => ({ market: noCompute, replicas: noCompute }),
    now: () => Date.now(),
    after,
    random: () => 0,
    queueEnd: async (end) => void queued.push(end),
    newCallId: () => asId<CallId>(`call-${++calls}`),
    waitUntil: (work) => void background.push(work),
    log: (line) => void logged.push(line),
  };
  const idle = async () => void (await Promise.all(background));
  return { ports, admitted, settled, released, queued, reported, asked, begun, sent, logged, idle };
}

/** An upstream's answer of any status. */
export function answer(
  body: BodyInit | null,
  init: ResponseInit = {},
  limits = { idleMs: 5_000, totalMs: 60_000 },
): UpstreamAnswer {
  return { kind: "answer", response: new Response(body, init), bodyTaken: Promise.resolve(), region: "r1", ...limits };
}

export const json = (body: unknown, status = 200, headers: Record<string, string> = {}): UpstreamAnswer =>
  answer(JSON.stringify(body), { status, headers: { "content-type": "application/json", ...headers } });

/** A stream whose chunks the test gives out one by one. */
export function scriptedStream(limits?: { idleMs: number; totalMs: number }) {
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  let cancelled = false;
  const body = new ReadableStream<Uint8Array>({
    start: (started) => {
      controller = started;
    },
    cancel: () => {
      cancelled = true;
    },
  });
  return {
    answer: answer(body, { headers: { "content-type": "text/event-stream" } }, limits),
    send: (chunk: string | Uint8Array) =>
      controller?.enqueue(typeof chunk === "string" ? new TextEncoder().encode(chunk) : chunk),
    close: () => controller?.close(),
    cut: () => controller?.error(new Error("Network connection lost.")),
    get cancelled() {
      return cancelled;
    },
  };
}
