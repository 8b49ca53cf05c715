/**
 * Asks the upstream that made a job for its status. Called by the account object, whose alarm settles jobs that no
 * client polls.
 */

import { parseObject } from "../../core/formats/json-fields.ts";
import { readJob, scrubJob } from "../../core/video/job-document.ts";
import { type Job, type JobAnswer, POLL_TIMEOUT_MS } from "../../core/video/jobs.ts";
import type { UpstreamAnswer } from "../../gateway/ports.ts";
import { openPorts } from "../ports.ts";
import { readSecrets } from "../secrets.ts";

/** A job's document is small; a longer answer is not one. */
const MAX_JOB_BYTES = 256 * 1024;

/** Never rejects: an error tells nothing about the job. */
export async function askUpstream(
  env: Env,
  context: Pick<ExecutionContext, "waitUntil">,
  job: Job,
): Promise<JobAnswer> {
  const patience = new AbortController();
  const timer = setTimeout(() => patience.abort(), POLL_TIMEOUT_MS);
  try {
    return await poll(env, context, job, patience.signal);
  } catch {
    return { kind: "nothing" };
  } finally {
    // A pending timer would keep the object in memory.
    clearTimeout(timer);
  }
}

async function poll(
  env: Env,
  context: Pick<ExecutionContext, "waitUntil">,
  job: Job,
  signal: AbortSignal,
): Promise<JobAnswer> {
  const secrets = await readSecrets(env);
  if (!secrets.ok) return { kind: "nothing" };
  const { directory, upstreams } = openPorts(env, context, secrets.secrets);
  let routing = await directory.routing();
  if (!Object.hasOwn(routing.upstreams, job.upstream)) routing = await directory.refresh(job.upstream);
  const target = { upstream: job.upstream, model: job.targetModel, priority: 0, weight: 1 };
  const answer = await upstreams.send(
    target,
    {
      callId: job.callId,
      method: "GET",
      path: `/v1/video/jobs/${encodeURIComponent(job.id)}`,
      contentType: null,
      accept: "application/json",
      body: null,
      careful: false,
      patience: "stream",
      signal,
    },
    routing,
  );
  if (answer.kind !== "answer") return { kind: "nothing" };
  const { response, region } = answer;
  if (!response.ok) await response.body?.cancel();
  if (response.status === 404) return { kind: "unknown" };
  const news = response.ok ? readJob(parseObject(await readText(answer))) : undefined;
  if (!news) return { kind: "nothing" };
  return { kind: "news", news: scrubJob(news, (text) => upstreams.scrub(text, target, routing)), region };
}

/** Empty if it is longer than a job's document can be. */
async function readText({ response }: UpstreamAnswer & { kind: "answer" }): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  let bytes = 0;
  for await (const chunk of (response.body ?? []) as AsyncIterable<Uint8Array>) {
    bytes += chunk.byteLength;
    if (bytes > MAX_JOB_BYTES) return "";
    text += decoder.decode(chunk, { stream: true });
  }
  return text + decoder.decode();
}
