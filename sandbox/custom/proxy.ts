/**
 * `POST /inference-instances/{instance_id}/proxy/{custom_api_path}`: a custom engine behind the service.
 *
 * The engine echoes: it returns body and content type unchanged. A JSON body with `"stream": true` gets events instead:
 * `sandbox_frames` of them (default 5), each with the body alone. The engine's stream has no `[DONE]`.
 */
import { ascii } from "../bytes.ts";
import type { Answer, Chunk, Endpoint, Received, Site } from "../endpoint.ts";
import { done, refuse } from "../refusal.ts";

const ENGINE = { "x-engine": "echo" };
const MOST_FRAMES = 10_000;

export const customProxy: Endpoint = {
  method: "POST",
  path: "/inference-instances/:instance_id/proxy/:custom_api_path{.+}",
  errors: "openai",
  prepare: (received) => {
    const id = received.params.instance_id ?? "";
    if (!/^\d{1,15}$/.test(id)) return refuse(404, "not_found", `There is no instance \`${id}\`.`);
    return done({
      model: null,
      kinds: ["custom"],
      executes: true,
      instanceId: Number(id),
      answer: (site) => answer(received, site),
    });
  },
};

function answer(received: Received, { instance }: Site): Answer {
  const path = received.params.custom_api_path ?? "";
  if (instance?.custom_api_path?.replace(/^\//, "") !== path) {
    return { kind: "refusal", ...refuse(404, "not_found", `The instance does not serve \`${path}\`.`) };
  }
  const asked = streamAsked(received);
  if (!asked) {
    const contentType = received.contentType || "application/octet-stream";
    return { kind: "bytes", bytes: received.bytes, contentType, usage: { requests: 1 }, headers: ENGINE };
  }
  return {
    kind: "chunks",
    chunks: pieces(received.bytes.length, asked.frames),
    contentType: "text/event-stream",
    usage: { requests: 1 },
    delayMs: asked.delayMs,
    headers: ENGINE,
  };
}

function streamAsked({ contentType, bytes }: Received): { frames: number; delayMs: number | undefined } | undefined {
  if (!/\bjson\b/i.test(contentType)) return undefined;
  let body: unknown;
  try {
    body = JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    return undefined;
  }
  if (typeof body !== "object" || body === null || !("stream" in body) || body.stream !== true) return undefined;
  const asked = "sandbox_frames" in body ? Number(body.sandbox_frames) : 5;
  const delay = "sandbox_frame_delay_ms" in body ? Number(body.sandbox_frame_delay_ms) : undefined;
  return { frames: Math.min(Math.max(asked || 0, 1), MOST_FRAMES), delayMs: delay };
}

function* pieces(bodyBytes: number, count: number): Iterable<Chunk> {
  for (let index = 0; index < count; index++) {
    const data = JSON.stringify({ index, of: count, body_bytes: bodyBytes });
    yield { bytes: ascii(`data: ${data}\n\n`), usage: { requests: 1 } };
  }
}
