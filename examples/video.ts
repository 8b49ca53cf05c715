/**
 * Makes a video through Tollgate: asks what it will cost, submits it, shows its progress, and says what it did cost.
 *
 *     TOLLGATE_KEY=sk-tg-... npx node examples/video.ts "A paper boat sails down a rainy street."
 *
 * With `npm start` a job takes 10 seconds. `npx node` is the Node that `npm ci` brings; it runs this file as it stands.
 */
import { setTimeout as pause } from "node:timers/promises";

const url = process.env.TOLLGATE_URL ?? "http://localhost:8787";
const key = process.env.TOLLGATE_KEY ?? "";
const order = {
  model: process.env.VIDEO_MODEL ?? "service-video-gen-2.0",
  prompt: process.argv[2] ?? "A paper boat sails down a rainy street.",
  resolution: "720p",
  duration: 5,
};

interface Quote {
  readonly estimated_cost_min_usd: number;
  readonly estimated_cost_max_usd: number;
}
interface Job {
  readonly id: string;
  readonly status: string;
  readonly url?: string;
  readonly error?: string;
  readonly code?: string;
  readonly retryable?: boolean;
  readonly billing?: { readonly charge_usd: number; readonly billable_tokens: number };
}

const POLL_EVERY_MS = 2_000;
/** What the bar takes for a whole job: the service does not say how far one has come. */
const USUAL_MS = Number(process.env.USUAL_SECONDS ?? 10) * 1_000;

/** Sends a call; a refusal is thrown in the service's own words. Polls that fail in passing may be sent again. */
async function call<Answer>(method: string, path: string, body?: unknown, headers = {}): Promise<Answer> {
  const response = await fetch(url + path, {
    method,
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json", ...headers },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const answer = (await response.json()) as Answer & { error?: string; code?: string };
  if (response.status >= 500 && method === "GET") return { status: "unknown" } as Answer;
  if (!response.ok) throw new Error(`${response.status} ${answer.code}: ${answer.error}`);
  return answer;
}

const say = (line: string): void => void process.stdout.write(`${line}\n`);

function bar(done: number, status: string): void {
  const width = 30;
  const filled = Math.round(width * done);
  process.stdout.write(`\r[${"#".repeat(filled)}${".".repeat(width - filled)}] ${status.padEnd(12)}`);
}

const quote = await call<Quote>("POST", "/v1/video/quote", order);
say(`It will cost ${quote.estimated_cost_min_usd} to ${quote.estimated_cost_max_usd} USD.`);

// With the key a repeat after a broken connection joins the first submission instead of paying twice.
const submitted = await call<Job>("POST", "/v1/video/generations", order, { "idempotency-key": crypto.randomUUID() });
const startedAt = Date.now();
let job = submitted;
while (job.status !== "completed" && job.status !== "failed") {
  bar(Math.min(0.95, (Date.now() - startedAt) / USUAL_MS), job.status);
  await pause(POLL_EVERY_MS);
  job = await call<Job>("GET", `/v1/video/jobs/${submitted.id}`);
}
bar(1, job.status);

if (job.status === "failed") {
  say(`\nIt failed and costs nothing: ${job.code} (${job.error}). Worth another try: ${job.retryable}.`);
  process.exit(1);
}
say(`\nIt cost ${job.billing?.charge_usd} USD for ${job.billing?.billable_tokens} tokens.`);
say(`Download within 30 minutes: ${job.url}`);
