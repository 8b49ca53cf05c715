/**
 * Sends a request of a service path with the key of service paths. Bodies are streamed both ways and never held; no
 * redirect is followed, and nothing is ever sent twice.
 *
 * Only the wait for the first byte is limited. It begins once the whole body was sent, since an upload may take as long
 * as its client likes.
 */
import { DEFAULT_TIMEOUTS, type UpstreamRow } from "../../core/routing/routes.ts";
import type { After, PassedAnswer, PassedRequest, Services } from "../../gateway/ports.ts";
import { type PlatformSecrets, serviceSeal } from "../secrets.ts";
import { whenOutOfReach } from "./careful-body.ts";
import { isKeyRefused } from "./service-key.ts";

export function servicesWith(secrets: Pick<PlatformSecrets, "unseal">, wait: After): Services {
  return {
    async pass(upstream, request) {
      const { service } = upstream;
      if (!service) return { kind: "unusable" };
      const key = await secrets.unseal(serviceSeal(upstream.id), service.sealedKey).catch(() => undefined);
      if (key === undefined) return { kind: "unusable" };
      const answer = await pass(upstream, key, request, wait);
      if (answer.kind !== "answer" || ![401, 403].includes(answer.response.status)) return answer;
      if (!(await isKeyRefused(upstream, service.sealedKey, key))) return answer;
      // The upstream's words are the operator's, and no pod was asked.
      await answer.response.body?.cancel();
      return { kind: "unusable" };
    },
  };
}

async function pass(upstream: UpstreamRow, key: string, request: PassedRequest, wait: After): Promise<PassedAnswer> {
  const { connectMs, firstByteMs } = { ...DEFAULT_TIMEOUTS, ...upstream.timeouts };
  const deadline = new AbortController();
  let [timedOut, over] = [false, false];
  const timers: ReturnType<typeof setTimeout>[] = [];
  const waitForFirstByte = () => {
    if (over) return;
    const late = () => {
      timedOut = true;
      deadline.abort();
    };
    timers.push(setTimeout(late, firstByteMs));
  };
  const upload = request.body && new Upload(request.body, request.bodyBytes);
  if (upload) void upload.sent.then(waitForFirstByte);
  else waitForFirstByte();
  const calm = whenOutOfReach(upstream.baseUrl, connectMs, () => deadline.abort(), wait);
  try {
    const response = await fetch(upstream.baseUrl + request.path, {
      method: request.method,
      headers: { ...Object.fromEntries(request.headers), authorization: `Bearer ${key}` },
      body: upload?.body ?? null,
      redirect: "manual",
      signal: AbortSignal.any([request.signal, deadline.signal]),
    });
    const { host } = new URL(upstream.baseUrl);
    const telltale = (text: string) => text.includes(key) || text.toLowerCase().includes(host);
    return { kind: "answer", response: upload?.busy ? outlivingUpload(response) : response, telltale };
  } catch {
    return { kind: timedOut ? "timeout" : "lost" };
  } finally {
    // What is still to be sent of the body may take its time from here on: the answer has begun.
    over = true;
    calm();
    for (const timer of timers) clearTimeout(timer);
  }
}

/** A body on its way. A plain pass-through would not tell when it was sent. */
class Upload {
  readonly body: ReadableStream<Uint8Array>;
  /** Resolves once the upstream took all of it; never, if it breaks off. */
  readonly sent: Promise<void>;
  busy = true;

  constructor(from: ReadableStream<Uint8Array>, bytes: number | null) {
    const { readable, writable } = bytes === null ? new IdentityTransformStream() : new FixedLengthStream(bytes);
    this.body = readable;
    this.sent = new Promise((resolve) => {
      // A client that leaves, or an upstream that reads no more, ends the fetch itself.
      from.pipeTo(writable).then(
        () => {
          this.busy = false;
          resolve();
        },
        () => {
          this.busy = false;
        },
      );
    });
  }
}

/**
 * The runtime pumps the body of a plain answer after the request's context has ended, and with it an upload that still
 * goes on. The context of this one lives to its last byte.
 */
function outlivingUpload(response: Response): Response {
  if (!response.body || response.webSocket) return response;
  return new Response(response.body.pipeThrough(new IdentityTransformStream()), response);
}
