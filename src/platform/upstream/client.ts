/**
 * Calls to upstreams: the target's credential, allow-listed headers, time limits. Redirects are not followed. No header
 * of the tenant is sent, and the upstream's headers are passed on only if they are on the list.
 *
 * This folder is the only one that calls the service. It must not know money, limits or keys.
 */

import { DEFAULT_TIMEOUTS, type RoutingSnapshot, type Target, type UpstreamRow } from "../../core/routing/routes.ts";
import type { Health } from "../../core/routing/target-health.ts";
import type { After, UpstreamAnswer, UpstreamRequest, Upstreams } from "../../gateway/ports.ts";
import type { PlatformSecrets } from "../secrets.ts";
import { listens, sendable, whenOutOfReach } from "./careful-body.ts";

/** The most of an upstream's error text that a tenant is shown. */
const MAX_WORDS = 1024;

/** `health`: what this isolate knows of its targets; lives as long as the isolate. */
export function upstreamsWith(secrets: PlatformSecrets, health: Health, wait: After): Upstreams {
  // Decrypted credentials, so that they can be removed from the upstream's error texts.
  const opened = new Map<string, string>();
  // A credential sealed with another MASTER_KEY makes its upstream unusable until the operator sets it again.
  const open = (upstream: UpstreamRow) => secrets.unseal(upstream.id, upstream.sealedApiKey).catch(() => undefined);
  return {
    health,
    async send(target, request, routing) {
      const upstream = routing.upstreams[target.upstream];
      const credential = upstream && (await open(upstream));
      if (!upstream || credential === undefined || request.signal.aborted) return { kind: "refused" };
      opened.set(upstream.id, credential);
      return call(upstream, credential, request, wait);
    },
    scrub: (message, target, routing) => scrub(message, target, routing, opened.get(target.upstream)),
  };
}

async function call(
  upstream: UpstreamRow,
  credential: string,
  request: UpstreamRequest,
  wait: After,
): Promise<UpstreamAnswer> {
  // A snapshot written by an earlier version may lack some.
  const { connectMs, firstByteMs, answerMs, idleMs, totalMs } = { ...DEFAULT_TIMEOUTS, ...upstream.timeouts };
  const streamed = request.patience === "stream";
  const sentAtMs = Date.now();
  const ours = new AbortController();
  const cancel = () => ours.abort();
  let timedOut = false;
  const stopWaiting = wait(streamed ? firstByteMs : answerMs, () => {
    timedOut = true;
    cancel();
  });
  const headers: Record<string, string> = {
    authorization: `Bearer ${credential}`,
    accept: request.accept,
    // A compressed stream arrives in blocks, and its usage could not be read as it passes.
    "accept-encoding": "identity",
    "x-request-id": request.callId,
    ...(request.contentType && { "content-type": request.contentType }),
  };
  const sent = sendable(request.body, request.careful);
  let outOfReach = false;
  const silent = () => {
    outOfReach = true;
    cancel();
  };
  const calm = whenOutOfReach(upstream.baseUrl, connectMs, silent, wait);
  // Never removed: the body is still to be read then. It goes when the signal does. `AbortSignal.any` costs more.
  request.signal.addEventListener("abort", cancel);
  try {
    const response = await fetch(upstream.baseUrl + request.path, {
      method: request.method,
      headers,
      body: sent.body,
      redirect: "manual",
      signal: ours.signal,
    });
    const region = response.headers.get("x-service-region") ?? upstream.region;
    const leftMs = request.patience === "whole" ? answerMs - (Date.now() - sentAtMs) : totalMs;
    return {
      kind: "answer",
      response,
      bodyTaken: sent.taken,
      region: region && safeRegion(region),
      idleMs,
      totalMs: Math.max(0, Math.min(totalMs, leftMs)),
    };
  } catch {
    // Refused connections, reset ones and unresolvable names look alike here; what was sent tells them apart. In
    // production Cloudflare answers for such an origin with a 52x.
    sent.stop();
    if (!sent.whole()) return { kind: "refused" };
    if (timedOut) return { kind: streamed ? "timeout" : "answer_timeout" };
    if (outOfReach) return { kind: "unreachable" };
    const closed = !request.signal.aborted && !(await listens(upstream.baseUrl));
    return { kind: closed ? "unreachable" : "lost" };
  } finally {
    calm();
    stopWaiting();
  }
}

/** A region is a short word; anything else is dropped. */
const safeRegion = (region: string): string | null => (/^[\w.:-]{1,64}$/.test(region) ? region : null);

/** A URL with its host, an address, a bearer credential, and ids of accounts or organisations in their usual forms. */
const TELLTALE =
  /\b(?:https?|wss?):\/\/\S+|\bBearer\s+\S+|\b(?:sk|pk|key|org|proj|acct|acc|account|user|team)[-_][\w-]{6,}|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b/gi;

function scrub(message: string, target: Target, routing: RoutingSnapshot, credential: string | undefined): string {
  const upstream = routing.upstreams[target.upstream];
  let clean = message;
  for (const secret of [
    credential,
    upstream && new URL(upstream.baseUrl).host,
    upstream && new URL(upstream.baseUrl).hostname,
  ]) {
    if (secret) clean = clean.replaceAll(secret, "[removed]");
  }
  return clean.replace(TELLTALE, "[removed]").slice(0, MAX_WORDS);
}
