/**
 * The pod behind a service path: an engine that shows what it was asked.
 *
 * Any path answers JSON with method, path, query, headers, cookies and body, unless the path says otherwise:
 * `/status/<n>`, `/redirect?to=&status=`, `/cookie?name=&value=`, `/headers?name=value`, `/bytes/<n>`, `/echo`,
 * `/slow?ms=`, `/sse?frames=&delay_ms=` and `/v1/chat/completions`. A WebSocket upgrade on any path is echoed.
 */
import { computeOf } from "../env.ts";
import type { Surroundings } from "../serve.ts";
import type { Pod } from "./object.ts";
import { podChat } from "./pod-chat.ts";

/** What a pod is never sent. */
const KEPT_BACK: ReadonlySet<string> = new Set(["authorization"]);
/** Of a body that is shown. */
const SHOWN_BYTES = 64 * 1024;
const CHUNK_BYTES = 64 * 1024;

/** A request as the pod sees it. */
interface Seen {
  readonly request: Request;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: Readonly<Record<string, string>>;
  readonly pod: Pod;
  readonly around: Surroundings;
}

export async function servePod(request: Request, path: string, pod: Pod, around: Surroundings): Promise<Response> {
  const headers = Object.fromEntries(
    [...request.headers].filter(([name]) => pod.leak || !KEPT_BACK.has(name.toLowerCase())),
  );
  await computeOf(around.env).podSaw(pod.callId, headers);
  const seen: Seen = { request, path, query: new URL(request.url).searchParams, headers, pod, around };
  if (headers.upgrade?.toLowerCase() === "websocket") return echoSocket(seen);
  const [, first = "", second = ""] = path.split("/");
  if (path === "/v1/chat/completions") return podChat(request, pod.name);
  switch (first) {
    case "status":
      return show(seen, statusOf(second));
    case "redirect":
      return redirect(seen);
    case "cookie":
      return show(seen, 200, {
        "set-cookie": `${seen.query.get("name")}=${seen.query.get("value")}; Path=/; HttpOnly`,
      });
    case "headers":
      return show(seen, 200, Object.fromEntries(seen.query));
    case "bytes":
      return bytes(seen, Number(second));
    case "echo":
      return new Response(request.body, { headers: { "content-type": headers["content-type"] ?? "text/plain" } });
    case "slow":
      await scheduler.wait(amount(seen.query.get("ms"), 1_000));
      return show(seen, 200);
    case "sse":
      return events(seen);
    default:
      return show(seen, 200);
  }
}

const statusOf = (text: string): number => Math.min(Math.max(amount(text, 200), 200), 599);
const amount = (text: string | null, or: number): number => (/^\d{1,9}$/.test(text ?? "") ? Number(text) : or);

/** What came in, as JSON. A status that has no body stays without. */
async function show(seen: Seen, status: number, extra: Readonly<Record<string, string>> = {}): Promise<Response> {
  const headers = { "x-pod": seen.pod.name, ...extra };
  const { length, shown, sha256 } = await bodyOf(seen.request);
  if ([204, 205, 304].includes(status) || seen.request.method === "HEAD")
    return new Response(null, { status, headers });
  const cookies = (seen.headers.cookie ?? "").split("; ").filter(Boolean);
  const body = {
    pod: seen.pod.name,
    port: seen.pod.port,
    method: seen.request.method,
    path: seen.path,
    query: Object.fromEntries(seen.query),
    search: new URL(seen.request.url).search,
    headers: seen.headers,
    cookies,
    body: shown,
    body_bytes: length,
    body_sha256: sha256,
  };
  return Response.json(body, { status, headers });
}

/** Reads the whole body and keeps its beginning. */
async function bodyOf(request: Request): Promise<{ length: number; shown: string; sha256: string | null }> {
  if (!request.body) return { length: 0, shown: "", sha256: null };
  const digest = new crypto.DigestStream("SHA-256");
  const writer = digest.getWriter();
  let length = 0;
  let shown = new Uint8Array(0);
  for await (const chunk of request.body as ReadableStream<Uint8Array>) {
    await writer.write(chunk);
    length += chunk.length;
    if (shown.length < SHOWN_BYTES) {
      const more = chunk.subarray(0, SHOWN_BYTES - shown.length);
      const joined = new Uint8Array(shown.length + more.length);
      joined.set(shown);
      joined.set(more, shown.length);
      shown = joined;
    }
  }
  await writer.close();
  const hash = new Uint8Array(await digest.digest);
  const sha256 = Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return { length, shown: new TextDecoder().decode(shown), sha256 };
}

/** `to` without a scheme is a path of the pod; `absolute=1` puts the address of the service before it. */
function redirect({ query, pod, request }: Seen): Response {
  const to = query.get("to") ?? "/";
  const origin = query.has("absolute") ? new URL(request.url).origin : "";
  const location = to.startsWith("/") && !to.startsWith("//") ? `${origin}${pod.prefix}${to}` : to;
  return new Response(null, { status: amount(query.get("status"), 302), headers: { location, "x-pod": pod.name } });
}

function bytes(seen: Seen, count: number): Response {
  if (!Number.isSafeInteger(count) || count < 0) return new Response("How many?", { status: 400 });
  const { readable, writable } = new FixedLengthStream(count);
  const send = async () => {
    const writer = writable.getWriter();
    for (let left = count; left > 0; left -= CHUNK_BYTES) {
      await writer.write(new Uint8Array(Math.min(left, CHUNK_BYTES)).fill(0x61));
    }
    await writer.close();
  };
  untilItEnds(seen, send());
  return new Response(readable, { headers: { "content-type": "application/octet-stream", "x-pod": seen.pod.name } });
}

/** Notes whether all of it was taken. */
function untilItEnds({ around, pod }: Seen, sent: Promise<void>): void {
  const compute = computeOf(around.env);
  const ended = sent.then(
    () => compute.podEnded(pod.callId, "whole"),
    () => compute.podEnded(pod.callId, "left"),
  );
  around.waitUntil(ended);
}

function events(seen: Seen): Response {
  const { query, pod } = seen;
  const frames = amount(query.get("frames"), 5);
  const delayMs = amount(query.get("delay_ms"), 1);
  const { readable, writable } = new IdentityTransformStream();
  const send = async () => {
    const writer = writable.getWriter();
    for (let index = 0; index < frames; index++) {
      if (index > 0) await scheduler.wait(delayMs);
      await writer.write(new TextEncoder().encode(`id: ${index}\ndata: {"index":${index},"of":${frames}}\n\n`));
    }
    await writer.close();
  };
  untilItEnds(seen, send());
  return new Response(readable, { headers: { "content-type": "text/event-stream", "x-pod": pod.name } });
}

/** The first message shows the request; then each message comes back. `close:<code>` closes. */
function echoSocket({ headers, path, query, pod }: Seen): Response {
  const { 0: client, 1: server } = new WebSocketPair();
  // A Blob could be sent back only after it was read.
  server.binaryType = "arraybuffer";
  server.accept();
  server.send(JSON.stringify({ pod: pod.name, path, query: Object.fromEntries(query), headers }));
  server.addEventListener("message", ({ data }) => {
    const code = typeof data === "string" ? /^close:(\d{4})$/.exec(data)?.[1] : undefined;
    if (code === undefined) server.send(data);
    else server.close(Number(code), "as asked");
  });
  server.addEventListener("close", ({ code }) => server.close(code === 1005 ? 1000 : code));
  const [protocol] = (headers["sec-websocket-protocol"] ?? "").split(/, */);
  return new Response(null, {
    status: 101,
    webSocket: client,
    headers: protocol ? { "sec-websocket-protocol": protocol } : {},
  });
}
