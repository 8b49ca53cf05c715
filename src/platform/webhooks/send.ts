/**
 * Sends one message to one receiver and says what came of it. Nothing waits longer than ten seconds, whatever the
 * receiver does: its answer's body is not read, and redirects are not followed.
 */
import { SECRET_PREFIX, signedText } from "../../core/alerts/message.ts";

const LIMIT_MS = 10_000;

/** The start script's door to the network, which looks at the addresses behind a name. Production has none. */
export interface WebhookOut {
  readonly WEBHOOK_OUT?: Pick<Fetcher, "fetch">;
}

export interface Outgoing {
  readonly url: string;
  /** Of the alert: the same at each try. */
  readonly id: string;
  readonly body: string;
  /** Each signs; the newest first. */
  readonly secrets: readonly string[];
}

/** `status`: of the answer; null: there was none. `problem`: why it failed; null: it did not. */
export interface Sent {
  readonly status: number | null;
  readonly problem: string | null;
  readonly ms: number;
}

export async function send(env: WebhookOut, { url, id, body, secrets }: Outgoing, nowMs: number): Promise<Sent> {
  const seconds = Math.floor(nowMs / 1000);
  const signatures = await Promise.all(secrets.map((secret) => sign(secret, signedText(id, seconds, body))));
  const headers = {
    "content-type": "application/json",
    "user-agent": "Tollgate-Webhooks",
    "webhook-id": id,
    "webhook-timestamp": String(seconds),
    "webhook-signature": signatures.map((signature) => `v1,${signature}`).join(" "),
  };
  const began = Date.now();
  const outcome = await (env.WEBHOOK_OUT
    ? throughDoor(env.WEBHOOK_OUT, { url, headers, body })
    : post(url, headers, body));
  return { ...outcome, ms: Math.max(0, Date.now() - began) };
}

type Outcome = Omit<Sent, "ms">;

async function post(url: string, headers: Record<string, string>, body: string): Promise<Outcome> {
  const limit = AbortSignal.timeout(LIMIT_MS);
  try {
    const response = await fetch(url, { method: "POST", headers, body, redirect: "manual", signal: limit });
    response.body?.cancel().catch(() => undefined);
    return judged(response.status);
  } catch {
    return { status: null, problem: limit.aborted ? "timeout" : "unreachable" };
  }
}

async function throughDoor(door: Pick<Fetcher, "fetch">, request: object): Promise<Outcome> {
  try {
    const response = await door.fetch("http://webhook-out/", { method: "POST", body: JSON.stringify(request) });
    const { status, problem } = await response.json<Outcome>();
    return status === null ? { status, problem } : judged(status);
  } catch {
    return { status: null, problem: "unreachable" };
  }
}

function judged(status: number): Outcome {
  if (status >= 200 && status < 300) return { status, problem: null };
  return { status, problem: status >= 300 && status < 400 ? "redirect" : "status" };
}

const encoder = new TextEncoder();

async function sign(secret: string, text: string): Promise<string> {
  const bytes = Uint8Array.from(atob(secret.slice(SECRET_PREFIX.length)), (character) => character.charCodeAt(0));
  const key = await crypto.subtle.importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return btoa(String.fromCharCode(...new Uint8Array(await crypto.subtle.sign("HMAC", key, encoder.encode(text)))));
}

const SECRET_BYTES = 24;

export const newSecret = (): string =>
  SECRET_PREFIX + btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(SECRET_BYTES))));
