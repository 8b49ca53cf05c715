/**
 * One call to the service, from top to bottom: authenticate, read, route, meet faults, answer, log.
 *
 * `begin` opens the log's row, and it is completed exactly once, before the last byte leaves. So a client that has read
 * an answer to its end finds it in the log.
 */
import { deliver, departure } from "./deliver.ts";
import type { Answer, Endpoint, Prepared, Received } from "./endpoint.ts";
import { type SandboxEnv, type ServiceStub, serviceOf } from "./env.ts";
import { countsAsExecuted, type MetFaults, replacesAnswer } from "./faults.ts";
import { type ErrorShape, type Outcome, type Refusal, refusalBody, refuse } from "./refusal.ts";
import { replacement } from "./replacement.ts";
import type { Arrival, Ending } from "./service/calls.ts";
import type { Begun } from "./service/service.ts";
import { accountOf, frameDelayMs } from "./settings.ts";
import { garbleWhole, halfOf, jsonBytes, stepsOf } from "./steps.ts";

/** What the platform provides besides the request. */
export interface Surroundings {
  readonly env: SandboxEnv;
  readonly waitUntil: (work: Promise<unknown>) => void;
}

/** A call that was routed and is being served. */
interface Running {
  readonly request: Request;
  readonly errors: ErrorShape;
  readonly service: ServiceStub;
  readonly begun: Begun;
  readonly met: MetFaults;
  readonly executes: boolean;
  readonly headers: Record<string, string>;
  readonly around: Surroundings;
}

/** `path`: without the prefix that pins a region. `pinned`: that region. */
export interface Located {
  readonly path: string;
  readonly pinned: string | null;
  readonly params: Readonly<Record<string, string>>;
}

export async function serve(
  endpoint: Endpoint,
  request: Request,
  located: Located,
  around: Surroundings,
): Promise<Response> {
  const service = serviceOf(around.env);
  const bytes = new Uint8Array(await request.arrayBuffer());
  const account = accountOf(around.env, request.headers.get("authorization")) ?? null;
  const blank = await arrivalOf(request, located.path, bytes, account);
  if (account === null) {
    const { refusal } = refuse(401, "invalid_api_key", "The API key is missing or wrong.");
    return refuseCall(service, blank, refusal, endpoint.errors);
  }
  const received: Received = {
    url: new URL(request.url),
    params: located.params,
    contentType: request.headers.get("content-type") ?? "",
    bytes,
    account,
  };
  const prepared: Outcome<Prepared> = await endpoint.prepare(received);
  if (!prepared.ok) return refuseCall(service, blank, prepared.refusal, endpoint.errors);
  const { model, kinds, executes, stored = null, instanceId = null } = prepared.value;
  const begin = await service.begin({
    arrival: { ...blank, model },
    account,
    kinds,
    pinned: located.pinned,
    executes,
    stored,
    instanceId,
  });
  if (!begin.ok) return refused(begin.refusal, begin.serviceRequestId, endpoint.errors);
  const { begun } = begin;
  const running: Running = {
    request,
    errors: endpoint.errors,
    service,
    begun,
    met: JSON.parse(begun.faults) as MetFaults,
    executes,
    headers: answerHeaders(account, begun),
    around,
  };
  const work = run(running, prepared.value, received);
  // Registered before anything waits: otherwise a client that leaves would tear down the call and its row would stay
  // open.
  around.waitUntil(work.catch(() => undefined));
  return work;
}

async function run(running: Running, prepared: Prepared, received: Received): Promise<Response> {
  const { begun, met } = running;
  const left = met.slow && (await waitOrLeave(running, met.slow.ms)) === "gone";
  if (replacesAnswer(met)) return replaceAnswer(running, prepared, received);
  const answer = await prepared.answer(siteOf(running, prepared, received));
  if (left) return leave(running, answer);
  if (answer.kind === "events" || answer.kind === "chunks") return streamed(running, answer);
  if (met.stall && (await waitOrLeave(running, met.stall.ms)) === "gone") return leave(running, answer);
  if (answer.kind === "refusal") {
    await end(running, { status: answer.refusal.status, executed: false, answered: true });
    return refused(answer.refusal, begun.serviceRequestId, running.errors, running.headers);
  }
  return whole(running, answer);
}

const siteOf = ({ begun, service, met }: Running, prepared: Prepared, received: Received) => ({
  ...begun,
  model: prepared.model ?? "",
  account: received.account,
  origin: received.url.origin,
  service,
  met,
});

async function whole(running: Running, answer: Extract<Answer, { kind: "json" | "bytes" }>): Promise<Response> {
  const { met, request, around } = running;
  const bytes = answer.kind === "json" ? jsonBytes(answer.body, met) : garbleWhole(answer.bytes, met);
  const status = answer.kind === "json" ? (answer.status ?? 200) : 200;
  const type = answer.kind === "json" ? "application/json" : answer.contentType;
  const extra = answer.kind === "bytes" ? answer.headers : {};
  const headers = { ...running.headers, ...extra, "content-type": type };
  const { usage } = answer;
  if (met.truncate) {
    const cut = deliver(halfOf(bytes, usage), usage, request.signal, (sent) =>
      end(running, { ...sent, status, executed: true, answered: false }),
    );
    around.waitUntil(cut.ended);
    return new Response(cut.body, { status, headers });
  }
  await end(running, { status, executed: true, answered: true, bytesSent: bytes.length, usage });
  return new Response(bytes, { status, headers });
}

function streamed(running: Running, answer: Extract<Answer, { kind: "events" | "chunks" }>): Response {
  const { met, request, around } = running;
  const delayMs = answer.delayMs ?? frameDelayMs(around.env);
  const { body, ended } = deliver(stepsOf(answer, met, delayMs), answer.usage, request.signal, (sent) =>
    end(running, { ...sent, status: 200, executed: true, answered: true }),
  );
  around.waitUntil(ended);
  const type = answer.kind === "events" ? "text/event-stream; charset=utf-8" : answer.contentType;
  const extra = answer.kind === "chunks" ? answer.headers : {};
  const headers = { ...running.headers, ...extra, "content-type": type, "cache-control": "no-cache, no-transform" };
  return new Response(body, { headers });
}

/** Sends a fault's answer in place of the real one. If the fault counts as executed, the work is still done. */
async function replaceAnswer(running: Running, prepared: Prepared, received: Received): Promise<Response> {
  const { met, request, headers } = running;
  const executed = running.executes && countsAsExecuted(met);
  const answer = executed ? await prepared.answer(siteOf(running, prepared, received)) : null;
  const response = replacement(met, request, running.errors, headers);
  const worked = answer !== null && answer.kind !== "refusal";
  const usage = worked ? wholeUsage(answer) : null;
  await end(running, { status: response.status, executed: worked, answered: false, usage });
  return response;
}

function wholeUsage(answer: Answer): Ending["usage"] {
  if (answer.kind === "refusal") return null;
  if (answer.kind === "events") return [...answer.events].at(-1)?.usage ?? answer.usage;
  if (answer.kind === "chunks") return [...answer.chunks].at(-1)?.usage ?? answer.usage;
  return answer.usage;
}

async function waitOrLeave({ request }: Running, ms: number): Promise<"gone" | "waited"> {
  return Promise.race([scheduler.wait(ms).then(() => "waited" as const), departure(request.signal)]);
}

/** The client left before the answer began. A whole answer was made but not delivered; a stream had not begun. */
async function leave(running: Running, answer: Answer): Promise<Response> {
  const usage = "usage" in answer ? answer.usage : null;
  const executed = answer.kind !== "refusal";
  await end(running, { status: 499, executed, answered: false, closedEarly: true, usage });
  return new Response(null, { status: 499 });
}

async function end(
  { service, begun, executes }: Running,
  what: Partial<Ending> & Pick<Ending, "status" | "executed" | "answered">,
): Promise<void> {
  const ending = { bytesSent: 0, framesSent: 0, closedEarly: false, usage: null, ...what };
  await service.finish(begun.callId, { ...ending, executed: executes && ending.executed });
}

async function refuseCall(service: ServiceStub, arrival: Arrival, refusal: Refusal, errors: ErrorShape) {
  const { serviceRequestId } = await service.refused(arrival, refusal);
  return refused(refusal, serviceRequestId, errors);
}

function refused(refusal: Refusal, serviceRequestId: string, errors: ErrorShape, headers = {}): Response {
  const retry = refusal.status === 429 || refusal.status === 503 ? { "retry-after": "1" } : {};
  return Response.json(refusalBody(refusal, errors), {
    status: refusal.status,
    headers: { ...headers, ...retry, "x-service-request-id": serviceRequestId },
  });
}

/** The contract's two headers, and others that a real service sends to its customer but no tenant should see. */
function answerHeaders(account: string, begun: Begun): Record<string, string> {
  return {
    "x-service-region": begun.region,
    "x-service-request-id": begun.serviceRequestId,
    "x-service-account": account,
    "x-ratelimit-limit-requests": "100000",
    "set-cookie": "service_lb=node-7; Path=/; HttpOnly",
  };
}

async function arrivalOf(
  request: Request,
  path: string,
  bytes: Uint8Array<ArrayBuffer>,
  account: string | null,
): Promise<Arrival> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return {
    method: request.method,
    path,
    account,
    model: null,
    requestId: request.headers.get("x-request-id"),
    bodySha256: Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join(""),
    headers: [...request.headers.keys()],
  };
}
