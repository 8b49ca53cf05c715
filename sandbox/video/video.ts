/**
 * `POST /v1/video/generations`, `GET /v1/video/jobs/{id}`, `POST /v1/video/quote` and the model's price list.
 *
 * Everything that can be refused is refused at submission. A job's end is decided when it is accepted and appears by
 * the sandbox's clock: a fifth of its time queued, the rest processing, 10 s in all unless the request sets it.
 */
import { readJson } from "../body.ts";
import type { Answer, Endpoint, JsonObject, Received, Site } from "../endpoint.ts";
import { fileLink } from "../files.ts";
import { done, type Outcome, refuse } from "../refusal.ts";
import { hash32, numbersFrom } from "../seed.ts";
import type { VideoJob } from "../service/video-jobs.ts";
import { failureAsked, isVideoCode, refuseVideo, VIDEO_CODES, type VideoCode } from "./codes.ts";
import { lookAt } from "./media.ts";
import { billableTokens, billing, type Order, priceList, quote, usageOf, VIDEO_MODEL } from "./pricing.ts";
import { referencesOf, secondsOf, VideoRequest } from "./request.ts";
import { nearestRatio, RATIOS, type Ratio, type Size, sizeOf } from "./sizes.ts";

const LINK_LIFETIME_MS = 30 * 60_000;
const DEFAULT_JOB_S = 10;

/** A submission that passed every check. */
interface Accepted {
  readonly body: VideoRequest;
  readonly order: Order;
  readonly ratio: Ratio;
  readonly failure: VideoCode | null;
}

export const videoGenerations: Endpoint = {
  method: "POST",
  path: "/v1/video/generations",
  errors: "video",
  prepare: (received) => {
    const accepted = accept(received);
    if (!accepted.ok) return accepted;
    const { body } = accepted.value;
    return done({
      model: body.model,
      kinds: ["video"],
      executes: true,
      answer: (site) => submit(accepted.value, site),
    });
  },
};

export const videoQuote: Endpoint = {
  method: "POST",
  path: "/v1/video/quote",
  errors: "video",
  prepare: (received) => {
    const accepted = accept(received);
    if (!accepted.ok) return accepted;
    const { body, order } = accepted.value;
    return done({
      model: body.model,
      kinds: ["video"],
      executes: false,
      answer: () => ({ kind: "json", body: quote(order), usage: null }),
    });
  },
};

export const videoJob: Endpoint = {
  method: "GET",
  path: "/v1/video/jobs/:id",
  errors: "video",
  prepare: ({ params }) =>
    done({
      model: null,
      kinds: [],
      executes: false,
      stored: { kind: "video_job", id: params.id ?? "" },
      answer: (site) => ({ kind: "json", body: show(site), usage: null }),
    }),
};

export const videoPricing: Endpoint = {
  method: "GET",
  path: `/platform/models/${VIDEO_MODEL}/pricing`,
  errors: "video",
  prepare: () =>
    done({
      model: null,
      kinds: [],
      executes: false,
      answer: () => ({ kind: "json", body: priceList(), usage: null }),
    }),
};

function accept(received: Received): Outcome<Accepted> {
  const read = readJson(received, VideoRequest);
  if (!read.ok) return read;
  const body = read.value;
  const references = referencesOf(body);
  if (!references.ok) return references;
  const looked = lookAt(references.value);
  if (!looked.ok) return looked;
  const asked = failureAsked(body.prompt);
  if (!asked.ok) return asked;
  if (asked.value?.at === "submit") return refuseVideo(asked.value.code, errorText(asked.value.code, body.prompt));
  const ratio = body.aspect_ratio === "adaptive" ? pickRatio(body.prompt, looked.value.firstSize) : body.aspect_ratio;
  const order: Order = {
    ...sizeOf(body.resolution, ratio),
    resolution: body.resolution,
    seconds: secondsOf(body),
    referenceSeconds: looked.value.videoSeconds,
  };
  return done({ body, order, ratio, failure: asked.value?.code ?? null });
}

/** By the first reference's shape, or else by the prompt. */
const pickRatio = (prompt: string, first: Size | null): Ratio =>
  first ? nearestRatio(first) : (RATIOS[hash32(prompt) % RATIOS.length] ?? "16:9");

async function submit({ body, order, ratio, failure }: Accepted, site: Site): Promise<Answer> {
  const id = `vid_${site.serviceRequestId.slice(4)}`;
  const wished = site.met.job_failure?.code ?? failure;
  const code = wished === null ? null : isVideoCode(wished) ? wished : "internal_error";
  const tokens = billableTokens(order, numbersFrom(hash32(id))());
  const lastsMs = Math.round((body.sandbox_job_seconds ?? DEFAULT_JOB_S) * 1000);
  const endsMs = site.nowMs + lastsMs;
  const outcome = code === null ? completed(body, order, ratio, tokens) : failed(code, id);
  const job: VideoJob = {
    id,
    account: site.account,
    model: body.model,
    region: site.region,
    callId: site.callId,
    createdMs: site.nowMs,
    startsMs: site.nowMs + Math.floor(lastsMs / 5),
    endsMs,
    usage: code === null ? usageOf(order, tokens) : {},
    outcome: JSON.stringify(outcome),
  };
  const waitMs = await site.service.addJob(job);
  if (waitMs !== null) {
    const message = `Too many submissions: try again in ${Math.ceil(waitMs / 1000)} s.`;
    return { kind: "refusal", ...refuse(429, "rate_limit_exceeded", message) };
  }
  return { kind: "json", status: 202, body: { id, status: "processing", model: body.model }, usage: null };
}

function completed(body: VideoRequest, order: Order, ratio: Ratio, tokens: number): JsonObject {
  const { width, height } = order;
  const used = body.aspect_ratio === "adaptive" ? { aspect_ratio: ratio } : {};
  return { status: "completed", width, height, ...used, billing: billing(order, tokens) };
}

const failed = (code: VideoCode, id: string): JsonObject => ({
  status: "failed",
  error: errorText(code, id),
  code,
  retryable: VIDEO_CODES[code].retryable,
});

/** An error text for people. Its wording varies, so that no client matches on it. */
function errorText(code: VideoCode, seed: string): string {
  const words = ["The request could not be served", "Generation did not succeed", "This video cannot be made"];
  return `${words[hash32(seed) % words.length]}: ${code.replaceAll(/[._]/g, " ")}.`;
}

/** The job as of the clock's time. A finished one gets a new link. */
function show(site: Site): JsonObject {
  const job = JSON.parse(site.stored ?? "null") as VideoJob;
  const { id, model, createdMs } = job;
  const head = { id, model, created_at: new Date(createdMs).toISOString() };
  if (site.nowMs < job.startsMs) return { ...head, status: "queued" };
  if (site.nowMs < job.endsMs) return { ...head, status: "processing" };
  const outcome = JSON.parse(job.outcome) as JsonObject;
  const ended = { ...head, ...outcome, completed_at: new Date(job.endsMs).toISOString() };
  if (outcome.status === "failed") return ended;
  const { width, height, billing: billed } = outcome;
  const seconds = (billed as { duration_seconds: number }).duration_seconds;
  const facts = { width: Number(width), height: Number(height), seconds };
  return { ...ended, url: fileLink(site, "video.mp4", facts, LINK_LIFETIME_MS) };
}
