/** The way of a compute call: to the object, which answers it, or on to a pod. Acts out what faults say of the wire. */

import { computeOf } from "../env.ts";
import type { Surroundings } from "../serve.ts";
import { bearerOf } from "../settings.ts";
import type { Incoming } from "./dispatch.ts";
import type { Handled } from "./object.ts";
import { servePod } from "./pod.ts";

/** First segments of the compute API. */
const ROOTS: ReadonlySet<string> = new Set([
  "gpu-instances",
  "gpu-clusters",
  "cloud-drives",
  "shared-filesystems",
  "storage",
  "container-images",
  "ssh-keys",
  "compute-templates",
  "billing",
]);
const SERVICE = /^\/gpu-(instance|cluster)s\/([^/]+)\/service(\/.*)?$/;
/** A larger body is refused. */
const LARGEST_BODY = 1_000_000;

/** Below `/platform` the video prices stand, too. */
export const isCompute = (path: string): boolean =>
  path === "/platform/gpu-prices" || ROOTS.has(path.split("/")[1] ?? "");

export async function serveCompute(request: Request, around: Surroundings): Promise<Response> {
  const url = new URL(request.url);
  const compute = computeOf(around.env);
  const incoming: Incoming = {
    method: request.method,
    path: url.pathname,
    origin: url.origin,
    key: bearerOf(request.headers.get("authorization")),
    body: null,
    requestId: request.headers.get("x-request-id"),
  };
  const service = SERVICE.exec(url.pathname);
  if (service) {
    const [, kind, id = "", rest = "/"] = service;
    const number = /^\d{1,15}$/.test(id) ? Number(id) : 0;
    const entered = await compute.enter(incoming, kind === "cluster" ? "cluster" : "instance", number);
    if (!entered.ok) return send(entered.handled);
    const { pod } = entered;
    if (pod.lateMs > 0) await scheduler.wait(pod.lateMs);
    const answer = await servePod(request, rest, pod, around);
    return pod.lost ? cut() : answer;
  }
  const body = await request.text();
  if (body.length > LARGEST_BODY) return Response.json({ error: "The body is too large." }, { status: 400 });
  const called = { ...incoming, body: body === "" ? null : body };
  const first = await compute.call(called);
  const work = finish(first, called, around);
  // Registered before anything waits: work that comes late is done though the client has left.
  around.waitUntil(work.catch(() => undefined));
  return work;
}

async function finish(first: Handled, incoming: Incoming, around: Surroundings): Promise<Response> {
  if (first.ends !== "execute") return send(first);
  await scheduler.wait(first.waitMs);
  return send(await computeOf(around.env).executeLate(first.callId, incoming));
}

async function send({ waitMs, ends, status, headers, text }: Handled): Promise<Response> {
  if (waitMs > 0) await scheduler.wait(waitMs);
  if (ends === "cut") return cut();
  if (text === null) return new Response(null, { status, headers });
  return new Response(text, { status, headers: { "content-type": "application/json", ...headers } });
}

/**
 * Ends the connection without an answer. A Worker that throws an error of the network, as a fetch to a closed port
 * gives it, has its own connection closed; any other error would be answered with 500.
 */
async function cut(): Promise<never> {
  await fetch("http://127.0.0.1:1/");
  throw new Error("Port 1 is open.");
}
