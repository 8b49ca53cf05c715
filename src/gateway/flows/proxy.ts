/**
 * The flow of service paths: a tenant's request to the pod of an instance or a cluster, and what it answers, passed on
 * as they come. One question to the account object: is the key live, and whose is the machine? Then bodies, event
 * streams and WebSockets are the runtime's to move; nothing of them is held or read here.
 *
 * Promises: no virtual key, control key or cookie goes to a pod; what a pod answers acts on no origin of ours; what it
 * answers is never taken for our word (`x-answer-from`).
 */
import type { ServiceAnswer } from "../../core/compute/calls.ts";
import type { ServiceFault } from "../../core/compute/service-faults.ts";
import {
  ANSWER_FROM,
  type HeadersIn,
  SERVICE_ANSWER_HEADERS,
  serviceHeadersIn,
  serviceHeadersOut,
} from "../../core/compute/service-headers.ts";
import { ourLocation, type ServicePath, servicePathFault, servicePrefix } from "../../core/compute/service-path.ts";
import { idOf } from "../../core/endpoints/compute/compute-endpoint.ts";
import { SERVICE_ROWS } from "../../core/endpoints/compute/service-rows.ts";
import { toHttp } from "../../core/http-refusal.ts";
import type { CallId } from "../../core/ids.ts";
import { type Outcome, refused } from "../../core/outcome.ts";
import type { Refusal } from "../../core/refusal.ts";
import type { UpstreamRow } from "../../core/routing/routes.ts";
import { askOrRefuse } from "../account-client.ts";
import { authenticate } from "../authenticate.ts";
import { callHeaders, refuse } from "../http/responses.ts";
import type { Caller, PassedAnswer, Ports } from "../ports.ts";
import { logCompute } from "./compute-log.ts";

/** Serves one request to a service path. */
export async function serveService(request: Request, path: ServicePath, ports: Ports): Promise<Response> {
  const callId = ports.newCallId();
  const startedAtMs = ports.now();
  let caller: Caller | null = null;
  const served = async (): Promise<Outcome<{ response: Response }>> => {
    const authentication = await authenticate(request.headers, ports);
    if (!authentication.ok) return authentication;
    ({ caller } = authentication);
    return passOn(request, path, callId, caller, ports);
  };
  const outcome = await served();
  const status = outcome.ok ? outcome.response.status : toHttp(outcome.refusal).status;
  const reason = outcome.ok ? null : outcome.refusal.kind;
  logCompute({ callId, caller, endpoint: SERVICE_ROWS[path.kind].id, status, reason, startedAtMs }, ports);
  if (outcome.ok) return outcome.response;
  const response = refuse(outcome.refusal, callId, "compute");
  for (const [name, value] of SERVICE_ANSWER_HEADERS) response.headers.set(name, value);
  response.headers.set(ANSWER_FROM, "gateway");
  return response;
}

async function passOn(
  request: Request,
  path: ServicePath,
  callId: CallId,
  caller: Caller,
  ports: Ports,
): Promise<Outcome<{ response: Response }>> {
  const no = (why: ServiceFault) => refused(refusalOf(path, why));
  const headers = serviceHeadersIn([...request.headers]);
  const fault = faultOf(request, path, headers);
  const asked = { keyDigest: caller.digest, kind: path.kind, id: idOf(path.id), fault };
  const opened: ServiceAnswer = await askOrRefuse(ports, caller.number, callId, (account) =>
    account.openService(asked),
  );
  if (!opened.ok) return opened;
  const found = await upstreamOf(opened.upstream, ports);
  if (!found.ok) return found;
  const { upstream } = found;
  // Without a check nobody knows whether pods are handed the key.
  if (!upstream?.service || upstream.service.checkedMs === null) return no("off");
  const prefix = servicePrefix(path.kind, opened.upstreamId);
  const below = prefix + path.rest + path.query;
  if (!staysBelow(upstream.baseUrl, prefix, below) || !headers.ok) return no("path");
  const answer = await ports.services.pass(upstream, {
    method: request.method,
    path: below,
    headers: sentHeaders(request, headers, callId),
    body: request.body,
    bodyBytes: declaredBytes(request.headers),
    signal: request.signal,
  });
  if (answer.kind !== "answer") return no(answer.kind);
  const response = answerTo(request, path, prefix, upstream, callId, answer);
  return response ? { ok: true, response } : no("lost");
}

const refusalOf = ({ kind: what }: ServicePath, why: ServiceFault): Refusal => ({
  kind: "compute",
  refusal: { kind: "service", what, why },
});

/** `TRACE` shows a server's headers to whoever asks, our key among them; `CONNECT` is for proxies. */
const METHODS_KEPT: ReadonlySet<string> = new Set(["TRACE", "CONNECT"]);

function faultOf(request: Request, path: ServicePath, headers: HeadersIn): Refusal | null {
  const { method, headers: sent, body } = request;
  const pathFault = servicePathFault(path);
  if (METHODS_KEPT.has(method)) return refusalOf(path, "method");
  // The platform cannot send one.
  if (body !== null && (method === "GET" || method === "HEAD")) return refusalOf(path, "body");
  if (pathFault) return refusalOf(path, pathFault);
  if (sent.get("service-worker") !== null) return refusalOf(path, "worker");
  // The pod's socket would open before ours is refused.
  const handshake = sent.get("sec-websocket-version") === "13" && sent.get("sec-websocket-key");
  if (wantsSocket(request) && !handshake) return refusalOf(path, "upgrade");
  return headers.ok ? null : refusalOf(path, headers.fault);
}

async function upstreamOf(id: string, ports: Ports): Promise<Outcome<{ upstream: UpstreamRow | undefined }>> {
  try {
    const { upstreams } = await ports.directory.routing();
    return { ok: true, upstream: Object.hasOwn(upstreams, id) ? upstreams[id] : undefined };
  } catch (error) {
    ports.log({ event: "routing_failed", error: String(error) });
    return refused({ kind: "admission_unavailable" });
  }
}

/** As `fetch` will read it: the last word on what was checked before. */
function staysBelow(baseUrl: string, prefix: string, below: string): boolean {
  const root = new URL(baseUrl + prefix);
  if (!URL.canParse(baseUrl + below)) return false;
  const { origin, pathname } = new URL(baseUrl + below);
  return origin === root.origin && (pathname === root.pathname || pathname.startsWith(`${root.pathname}/`));
}

const wantsSocket = ({ method, headers }: Request): boolean =>
  method === "GET" && headers.get("upgrade")?.trim().toLowerCase() === "websocket";

function sentHeaders(request: Request, { headers }: HeadersIn & { ok: true }, callId: CallId): Headers {
  const sent = new Headers(headers.map(([name, value]): [string, string] => [name, value]));
  sent.set("x-request-id", callId);
  if (wantsSocket(request)) sent.set("upgrade", "websocket");
  return sent;
}

function declaredBytes(headers: Headers): number | null {
  const text = headers.get("content-length");
  const bytes = text !== null && /^\d{1,15}$/.test(text) ? Number(text) : null;
  return headers.has("transfer-encoding") ? null : bytes;
}

const WITHOUT_BODY: ReadonlySet<number> = new Set([204, 205, 304]);

/** Null: what came is no answer to this request. */
function answerTo(
  request: Request,
  path: ServicePath,
  prefix: string,
  { baseUrl, region }: UpstreamRow,
  callId: CallId,
  { response: got, telltale }: Extract<PassedAnswer, { kind: "answer" }>,
): Response | null {
  const { status, webSocket } = got as Response & { webSocket?: unknown };
  const upgraded = status === 101;
  if (upgraded !== (webSocket !== null && webSocket !== undefined) || (upgraded && !wantsSocket(request))) return null;
  const headers = callHeaders(callId, region, undefined);
  for (const [name, value] of serviceHeadersOut([...got.headers], telltale)) headers.append(name, value);
  const root = new URL(baseUrl);
  const location = ourLocation(got.headers.get("location") ?? "", {
    rest: path.rest,
    upstreamHost: root.host,
    upstreamPrefix: root.pathname.replace(/\/$/, "") + prefix,
    ourPrefix: servicePrefix(path.kind, Number(path.id)),
  });
  if (got.headers.has("location") && location !== null && !telltale(location)) headers.set("location", location);
  for (const [name, value] of SERVICE_ANSWER_HEADERS) headers.set(name, value);
  headers.set(ANSWER_FROM, "service");
  if (upgraded) return new Response(null, { status, headers, webSocket } as ResponseInit);
  if (status < 200 || status > 599) return null;
  // What is as long as the answer to a GET would be.
  const length = request.method === "HEAD" ? got.headers.get("content-length") : null;
  if (length !== null && /^\d{1,15}$/.test(length)) headers.set("content-length", length);
  return new Response(WITHOUT_BODY.has(status) ? null : got.body, { status, headers });
}
