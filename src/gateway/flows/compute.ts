/**
 * The flow of a compute call: the key, the body, one question to the account object, and its rows as the contract's
 * documents. The object decides and sends; nothing here knows an upstream's id.
 */
import type { ComputeAnswer, ComputeRequest } from "../../core/compute/calls.ts";
import type { Roots } from "../../core/compute/documents.ts";
import type { GpuPrices } from "../../core/compute/facts.ts";
import { shownRegions, shownStorage } from "../../core/compute/market.ts";
import { isMachine, isStorage, type MachineRow, type ResourceRow } from "../../core/compute/resource.ts";
import { attachedDocuments, documentOf, replicaDocuments, wrappedInstance } from "../../core/compute/row-documents.ts";
import { fingerprintOf, readSshKey } from "../../core/compute/ssh.ts";
import { deploymentMark } from "../../core/compute/tag.ts";
import { type ComputeEndpoint, idOf } from "../../core/endpoints/compute/compute-endpoint.ts";
import { asObject } from "../../core/formats/json-fields.ts";
import { toHttp } from "../../core/http-refusal.ts";
import type { CallId } from "../../core/ids.ts";
import { type Outcome, refused } from "../../core/outcome.ts";
import type { ModelRow } from "../../core/pricing/prices.ts";
import type { Refusal } from "../../core/refusal.ts";
import { type RoutingSnapshot, rowOf } from "../../core/routing/routes.ts";
import { askOnce, isOverloaded } from "../account-client.ts";
import { authenticate } from "../authenticate.ts";
import { readRaw } from "../http/parse.ts";
import { callHeaders, refuse } from "../http/responses.ts";
import { BodyPlace } from "../http/upload-slot.ts";
import { computeIdempotency } from "../idempotency.ts";
import type { Caller, Ports } from "../ports.ts";
import { aboutRefused, tellRefused } from "../refuse-call.ts";
import { logCompute } from "./compute-log.ts";
import { filled, templateAnswer } from "./compute-templates.ts";

/** The account answers within 25 s with what it knows then. */
const LONGEST_ANSWER_MS = 30_000;

/** Serves one request to a row of the compute table. */
export async function serveCompute(
  request: Request,
  endpoint: ComputeEndpoint,
  params: Readonly<Record<string, string>>,
  ports: Ports,
): Promise<Response> {
  const callId = ports.newCallId();
  const startedAtMs = ports.now();
  const place = new BodyPlace(request.signal, ports);
  let caller: Caller | null = null;
  const served = async (): Promise<Outcome<{ response: Response }>> => {
    const authentication = await authenticate(request.headers, ports);
    if (!authentication.ok) return authentication;
    ({ caller } = authentication);
    return answer(request, endpoint, params, callId, caller, place, ports);
  };
  try {
    const outcome = await served();
    const status = outcome.ok ? outcome.response.status : toHttp(outcome.refusal).status;
    const reason = outcome.ok ? null : outcome.refusal.kind;
    if (!outcome.ok && caller) {
      tellRefused(caller, aboutRefused({ callId, endpoint, startedAtMs }, outcome.refusal), ports);
    }
    logCompute({ callId, caller, endpoint: endpoint.id, status, reason, startedAtMs }, ports);
    return outcome.ok ? outcome.response : refuse(outcome.refusal, callId, "compute");
  } finally {
    place.leave();
  }
}

async function answer(
  request: Request,
  endpoint: ComputeEndpoint,
  params: Readonly<Record<string, string>>,
  callId: CallId,
  caller: Caller,
  place: BodyPlace,
  ports: Ports,
): Promise<Outcome<{ response: Response }>> {
  const { body, identity } = await bodyOf(request, endpoint, caller, place, ports);
  const routing = await ports.directory.routing();
  const asking = await requestOf({ request, endpoint, params, callId, caller, body, identity }, routing, ports);
  const asked = await askAccount(asking, endpoint, caller, ports);
  if (!asked.ok) return asked;
  const ours = new URL(request.url).origin;
  const upstream = routing.upstreams[asked.upstream]?.baseUrl ?? "";
  const template = endpoint.template && {
    ...{ call: endpoint.template, id: params.id, body: asking.body.ok ? asking.body.body : null },
    ...{ caller, routing, answer: asked },
  };
  const shown = template
    ? await templateAnswer(template, ports)
    : await bodyFor(endpoint, asked, { ours, upstream }, ports);
  if (!shown.ok) return shown;
  const headers = callHeaders(callId, null, undefined);
  const response =
    endpoint.status === 204
      ? new Response(null, { status: 204, headers })
      : Response.json(shown.document, { status: endpoint.status, headers });
  return { ok: true, response };
}

type Parsed = Outcome<{ body: unknown }>;

/**
 * A call without a body may have one all the same; it is not read. `identity`: what a repeat must have alike, whatever
 * has become of the template since.
 */
async function bodyOf(
  request: Request,
  endpoint: ComputeEndpoint,
  caller: Caller,
  place: BodyPlace,
  ports: Ports,
): Promise<{ body: Parsed; identity: string }> {
  const { schema, maxBytes, parse } = endpoint;
  if (!schema) return { body: { ok: true, body: null }, identity: "" };
  const read = await readRaw(request, { kind: "json", maxBytes, schema }, place.of(caller), ports);
  if (!read.ok) return { body: read, identity: "" };
  const sent = read.body.kind === "json" ? read.body.value : null;
  const whole = await filled(sent, endpoint, caller, ports);
  const body = whole.ok ? parse(whole.value) : whole;
  const same = whole.ok && whole.value !== sent ? sent : body.ok ? body.body : "";
  return { body, identity: JSON.stringify(same) };
}

interface Received {
  readonly request: Request;
  readonly endpoint: ComputeEndpoint;
  readonly params: Readonly<Record<string, string>>;
  readonly callId: CallId;
  readonly caller: Caller;
  readonly body: Parsed;
  readonly identity: string;
}

async function requestOf(received: Received, routing: RoutingSnapshot, ports: Ports): Promise<ComputeRequest> {
  const { request, endpoint, params, callId, caller, body, identity } = received;
  const found = endpoint.repeatable
    ? await computeIdempotency(request.headers, caller, `${endpoint.id} ${params.id ?? ""} ${identity}`, ports)
    : ({ ok: true, idempotency: undefined } as const);
  return {
    keyDigest: caller.digest,
    callId,
    endpoint: endpoint.id,
    id: params.id === undefined ? null : (idOf(params.id) ?? undefined),
    // What is wrong with the body comes first.
    body: body.ok && !found.ok ? found : body,
    bookRows: rentedRowsOf(routing, ports.now()),
    sharedUpstreams: Object.values(routing.upstreams).flatMap(({ id, shared }) => (shared ? [id] : [])),
    deployment: await deploymentMark(ports.secrets),
    random: base32(crypto.getRandomValues(new Uint8Array(6))),
    sshFingerprint: body.ok ? await fingerprintIn(body.body) : null,
    idempotency: found.ok ? found.idempotency : undefined,
  };
}

/** The price book's rows of GPUs that hold now. */
export const gpuRowsOf = (routing: RoutingSnapshot, nowMs: number): ModelRow[] =>
  rentedRowsOf(routing, nowMs).filter(({ model }) => model.startsWith("gpu/"));

/** The same, and those of storage. */
function rentedRowsOf(routing: RoutingSnapshot, nowMs: number): ModelRow[] {
  return Object.keys(routing.models)
    .filter((model) => model.startsWith("gpu/") || model.startsWith("storage/"))
    .flatMap((model) => rowOf(routing, model, nowMs) ?? []);
}

/** The fingerprint of the SSH key in a checked body. */
async function fingerprintIn(body: unknown): Promise<string | null> {
  const { public_key, ssh_public_key } = asObject(body) ?? {};
  const line = public_key ?? ssh_public_key;
  const read = typeof line === "string" ? readSshKey(line) : undefined;
  if (!read?.ok) return null;
  return fingerprintOf(new Uint8Array(await crypto.subtle.digest("SHA-256", read.key.bytes)));
}

const BASE32 = "abcdefghijklmnopqrstuvwxyz234567";
const base32 = (bytes: Uint8Array): string => Array.from(bytes, (byte) => BASE32[byte % 32]).join("");

/** Asked once: what it decided stands, and a repeat would decide again. Without an answer nobody knows if it did. */
async function askAccount(
  request: ComputeRequest,
  { decide }: ComputeEndpoint,
  caller: Caller,
  ports: Ports,
): Promise<ComputeAnswer> {
  try {
    return await askOnce(ports, caller.number, (account) => account.compute(request), LONGEST_ANSWER_MS);
  } catch (error) {
    ports.log({ event: "admission_failed", call: request.callId, error: String(error) });
    const mayBeDone = decide && !isOverloaded(error);
    return refused(mayBeDone ? MAY_BE_DONE : { kind: "admission_unavailable" });
  }
}

const MAY_BE_DONE: Refusal = { kind: "compute", refusal: { kind: "may_be_done" } };

type Answered = Extract<ComputeAnswer, { ok: true }>;
type Shown = Outcome<{ document: unknown }>;
const show = (document: unknown): Shown => ({ ok: true, document });

async function bodyFor(endpoint: ComputeEndpoint, asked: Answered, roots: Roots, ports: Ports): Promise<Shown> {
  if (endpoint.market) return marketOf(endpoint.market, asked, ports);
  const [row] = asked.rows;
  const one = (row: ResourceRow) => documentOf(row, roots, asked.mounted.includes(row.id));
  if (endpoint.lists !== null) return show(asked.rows.map(one));
  if (!row) return refused({ kind: "internal" });
  if (isMachine(row)) {
    const storage = asked.rows.filter(isStorage);
    if (endpoint.id === "instances.get") return show(wrappedInstance(row, storage, roots, asked.mounted));
    if (endpoint.id === "clusters.replicas") return replicasOf(row, asked.upstream, ports);
    if (endpoint.id === "clusters.filesystems") {
      return show(attachedDocuments("filesystem", row, storage, asked.mounted));
    }
    if (endpoint.id === "clusters.scale") return show({ id: row.id, replicas: row.wants.replicas });
  }
  return show(one(row));
}

const UNAVAILABLE: Refusal = { kind: "compute", refusal: { kind: "unavailable", retryAfterMs: null } };

async function marketOf(market: "gpus" | "storage" | "prices", asked: Answered, ports: Ports): Promise<Shown> {
  const prices = new Map<string, GpuPrices>(asked.gpuPrices);
  const storageKinds = asked.storagePrices.map(([kind]) => kind);
  try {
    const answer = await ports.broker(asked.upstream).market(asked.upstream, market);
    if (answer.kind !== "answered" || answer.status !== 200) return refused(UNAVAILABLE);
    const shown = market === "storage" ? shownStorage(answer.body, storageKinds) : shownRegions(answer.body, prices);
    return shown ? show(shown) : refused(UNAVAILABLE);
  } catch (error) {
    ports.log({ event: "broker_lost", upstream: asked.upstream, verb: "market", error: String(error) });
    return refused(UNAVAILABLE);
  }
}

/** Pods of a cluster that upstream has and that has not ended. */
async function replicasOf(row: MachineRow, upstream: string, ports: Ports): Promise<Shown> {
  if (row.upstreamId === null || row.seen.state === "ended") return show([]);
  try {
    const answer = await ports.broker(upstream).replicas(upstream, row.upstreamId);
    if (answer.kind !== "answered") return refused(UNAVAILABLE);
    // Upstream may have forgotten it before a list tells us.
    const shown = answer.status === 404 ? [] : replicaDocuments(answer.body, row);
    return shown && (answer.status === 200 || answer.status === 404) ? show(shown) : refused(UNAVAILABLE);
  } catch (error) {
    ports.log({ event: "broker_lost", upstream, verb: "replicas", error: String(error) });
    return refused(UNAVAILABLE);
  }
}
