/**
 * `POST /admin/upstreams/{upstream}/check`: whether an upstream answers and takes its key, and, with `echo`, whether
 * pods are kept from the key of service paths. Only the second turns service paths on: with the key a pod would hold
 * the operator's account.
 */
import * as z from "zod/mini";
import { type EchoFault, echoFault } from "../../core/compute/service-check.ts";
import { asObject } from "../../core/formats/json-fields.ts";
import { type RoutingSnapshot, rowOf, type UpstreamRow } from "../../core/routing/routes.ts";
import { readUpstream } from "../../gateway/http/upstream-body.ts";
import { parseAnswer } from "../../gateway/http/upstream-errors.ts";
import { findUpstream, recordServiceCheck } from "../../platform/d1/upstreams.ts";
import { serviceSeal } from "../../platform/secrets.ts";
import { type AdminContext, type AdminRoutes, known } from "../kit/context.ts";
import { conflict } from "../kit/problem.ts";
import { answers, ok, route } from "../kit/route.ts";

const MARKER = "x-check-marker";
/** A list of models, or the headers of a request. */
const MOST_BYTES = 1024 * 1024;
/** The longest that a check waits, ms. */
const PATIENCE_MS = 20_000;

const CheckAnswer = z
  .object({
    ok: z.boolean(),
    status: z.nullable(z.int()).check(z.describe("Null: it did not answer")),
    latency_ms: z.int(),
    model: z
      .nullable(z.string())
      .check(z.describe("The first model that its key may call, or the one that was called")),
    problem: z.nullable(z.string()).check(z.describe("What is wrong and what to do")),
  })
  .register(z.globalRegistry, { id: "UpstreamCheck" });
type Checked = z.input<typeof CheckAnswer>;

const check = route({
  id: "checkUpstream",
  method: "post",
  path: "/admin/upstreams/{upstream}/check",
  summary:
    "Call an upstream (its models, or one token); with `echo`, show that pods do not get its key, which turns service paths on",
  body: z
    .strictObject({
      echo: z
        .optional(z.int().check(z.minimum(1)))
        .check(
          z.describe(
            "The upstream's id of an instance of yours whose service answers the headers that it got, as JSON",
          ),
        ),
    })
    .register(z.globalRegistry, { id: "UpstreamCheckBody" }),
  bodyOptional: true,
  answers: { 200: answers("What the check showed", CheckAnswer) },
});

export function addUpstreamCheck(api: AdminRoutes): void {
  api.add(check, async ({ work: context, params: { upstream: id }, body }) => {
    const row = known(await findUpstream(context.books, id), "upstream", id);
    return ok(body.echo === undefined ? await checkModels(context, row) : await checkEcho(context, row, body.echo));
  });
}

/** Reads the list of models; where there is none, makes a call of one token to a chat model that is known there. */
export async function checkModels(context: AdminContext, row: UpstreamRow): Promise<Checked> {
  const routing = { ...(await context.edge.routing()) };
  const listed = await askUpstream(context, row, routing, { method: "GET", path: "/v1/models", body: null });
  if (listed.status === null || !NO_LIST.includes(listed.status)) {
    const models = asObject(listed.json)?.data;
    const { id } = asObject(Array.isArray(models) ? models[0] : undefined) ?? {};
    return judged(listed, typeof id === "string" ? id : null, UNEXPECTED);
  }
  const model = chatModelAt(routing, row.id, context.calls.now());
  if (model === undefined) return failed(listed.status, listed.latencyMs, NO_MODEL);
  const call = { model, max_tokens: 1, messages: [{ role: "user", content: "Hi" }] };
  const body = new TextEncoder().encode(JSON.stringify(call));
  return judged(
    await askUpstream(context, row, routing, { method: "POST", path: "/v1/chat/completions", body }),
    model,
    NO_CHAT,
  );
}

/** Statuses of engines that have no list of models. */
const NO_LIST: readonly number[] = [404, 405, 501];

interface Asked {
  readonly status: number | null;
  readonly latencyMs: number;
  /** Undefined: it is not JSON, so a page of something else. */
  readonly json: unknown;
}
interface Question {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly body: Uint8Array<ArrayBuffer> | null;
}

async function askUpstream(
  { calls }: AdminContext,
  row: UpstreamRow,
  routing: RoutingSnapshot,
  { method, path, body }: Question,
): Promise<Asked> {
  const sinceMs = calls.now();
  const signal = AbortSignal.timeout(PATIENCE_MS);
  const request = {
    callId: calls.newCallId(),
    method,
    path,
    contentType: body && "application/json",
    accept: "application/json",
    body: body && [body],
    careful: false,
    patience: "whole",
    signal,
  } as const;
  const there = { ...routing, upstreams: { ...routing.upstreams, [row.id]: row } };
  const answer = await calls.upstreams.send({ upstream: row.id, model: "", priority: 0, weight: 1 }, request, there);
  if (answer.kind !== "answer") return { status: null, latencyMs: calls.now() - sinceMs, json: undefined };
  const bytes = await readUpstream(answer, MOST_BYTES, signal, calls);
  const json = typeof bytes === "string" ? undefined : parseAnswer(bytes);
  return { status: answer.response.status, latencyMs: calls.now() - sinceMs, json };
}

function judged({ status, latencyMs, json }: Asked, model: string | null, unexpected: string): Checked {
  if (status === null) return failed(null, latencyMs, SILENT);
  if (status === 200 && json !== undefined) return { ok: true, status, latency_ms: latencyMs, model, problem: null };
  return failed(status, latencyMs, status === 401 || status === 403 ? REFUSED_KEY : unexpected);
}

/** A chat model that calls go to there, by its row or as a target of an alias. */
function chatModelAt(routing: RoutingSnapshot, upstream: string, nowMs: number): string | undefined {
  const own = Object.keys(routing.models).filter((model) => rowOf(routing, model, nowMs)?.upstream === upstream);
  const targets = Object.values(routing.aliases).flatMap((alias) => alias.targets);
  const named = targets.filter((target) => target.upstream === upstream).map(({ model }) => model);
  return [...own, ...named].find((model) => rowOf(routing, model, nowMs)?.kind === "chat");
}

async function checkEcho(context: AdminContext, row: UpstreamRow, echo: number): Promise<Checked> {
  const { calls, secrets, books, edge } = context;
  if (!row.service) {
    throw conflict("no_service_key", "Set `service_api_key` on this upstream first.", "service_api_key");
  }
  const sinceMs = calls.now();
  const marker = crypto.randomUUID();
  const signal = AbortSignal.timeout(PATIENCE_MS);
  const path = `/gpu-instances/${echo}/service/`;
  const headers = new Headers({ accept: "application/json", [MARKER]: marker });
  const answer = await calls.services.pass(row, { method: "GET", path, headers, body: null, bodyBytes: null, signal });
  const took = () => calls.now() - sinceMs;
  if (answer.kind !== "answer") return failed(null, took(), answer.kind === "unusable" ? UNUSABLE : SILENT);
  const { status } = answer.response;
  const whole = { ...answer, idleMs: PATIENCE_MS, totalMs: PATIENCE_MS };
  const bytes = await readUpstream(whole, MOST_BYTES, signal, calls);
  const echoed = typeof bytes === "string" ? undefined : parseAnswer(bytes);
  const opened = await Promise.allSettled([
    secrets.unseal(row.id, row.sealedApiKey),
    secrets.unseal(serviceSeal(row.id), row.service.sealedKey),
  ]);
  const keys = opened.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
  const fault = echoFault(echoed, marker, keys);
  // A key that came through is proof, whatever else was wrong. Without proof, what an earlier check showed stands.
  const passed = status === 200 && fault === null;
  if (passed || fault === "key_arrived") {
    const recorded = await recordServiceCheck(books, row, passed ? calls.now() : null);
    await edge.routingChanged();
    if (!recorded) throw conflict("upstream_changed", "The upstream was changed meanwhile. Check it again.");
  }
  if (passed) return { ok: true, status, latency_ms: took(), model: null, problem: null };
  return failed(status, took(), fault === "key_arrived" || status === 200 ? ECHO[fault ?? "no_marker"] : NO_ECHO);
}

const failed = (status: number | null, latency_ms: number, problem: string): Checked => ({
  ok: false,
  status,
  latency_ms,
  model: null,
  problem,
});

const SILENT = "It did not answer. Check `base_url`, and that the upstream is up.";
const REFUSED_KEY = "It refuses the key. Set `api_key` anew.";
const UNEXPECTED = "It did not answer a list of models. Check `base_url`.";
const NO_MODEL =
  "It has no list of models, and no chat model is known there. Check `base_url`, or put a model with this upstream first.";
const NO_CHAT = "It has no list of models and did not answer a call of one token. Check `base_url` and its models.";
const UNUSABLE = "`service_api_key` cannot be opened with this MASTER_KEY. Set it anew.";
const NO_ECHO =
  "The echo did not answer 200. Check that `echo` is an instance of this upstream account that runs and exposes a port, " +
  "and that `service_api_key` may call it.";
const ECHO: Readonly<Record<EchoFault, string>> = {
  no_marker: `The echo's answer does not have the header ${MARKER} in it. Its service must answer all headers that it gets, as JSON.`,
  key_arrived:
    "The upstream hands our key on to pods: service paths stay off. Revoke `service_api_key` there, since the echo has seen it.",
};
