/**
 * Video (contract: POST /v1/video/generations, GET /v1/video/jobs/{id}, POST /v1/video/quote, GET
 * /platform/models/{model}/pricing). A submission is quoted first, and the hold covers the quote's upper end. The
 * actual usage is known minutes later, when the job has finished; the account object then settles it
 * (core/video/jobs.ts).
 */
import type { JsonReader, Meter } from "../../meters/meter.ts";
import { readVideoCode } from "../../video/codes.ts";
import { readAcknowledgement } from "../../video/job-document.ts";
import { unitOf } from "../../video/rates.ts";
import { sentFields, VideoRequest } from "../../video/request.ts";
import { json, nothing } from "../body.ts";
import { endpoint } from "../endpoint.ts";
import { acknowledgement } from "../read-back.ts";

/** Reads the acknowledgement. As its usage it reports the quote's lower end, all that is known before the job ends. */
function acknowledgementReader(body: VideoRequest, minTokens: number): JsonReader {
  let id: string | null = null;
  return {
    kind: "json",
    read(answer) {
      id = readAcknowledgement(answer)?.id ?? null;
      return id !== null;
    },
    created: () => id,
    reading: () => ({ source: "own_count", usage: { [unitOf(body)]: minTokens } }),
  };
}

const meter: Meter<VideoRequest> = {
  bound: (body, { estimate }) => {
    if (!estimate) throw new Error("a submission was not quoted before its admission");
    return { fixed: { [unitOf(body)]: estimate.maxTokens } };
  },
  reader: (body, { measured }) => acknowledgementReader(body, measured.estimate?.minTokens ?? 0),
};

export const videoQuote = endpoint({
  id: "video.quote",
  method: "POST",
  path: "/v1/video/quote",
  summary: "What a submission may cost",
  scope: "inference",
  body: json(VideoRequest),
  model: "model",
  flow: { kind: "quote" },
  kinds: ["video"],
  forced: sentFields,
  retry: "safe",
  errors: "video",
  readCode: readVideoCode,
  jobUnit: unitOf,
});

export const videoGenerations = endpoint({
  id: "video.generations",
  method: "POST",
  path: "/v1/video/generations",
  summary: "Submits a video job",
  scope: "inference",
  body: json(VideoRequest),
  model: "model",
  flow: { kind: "job", quotedBy: videoQuote },
  // Contract, "Limits": video submissions.
  limits: [{ name: "submissions", per: "account", count: 10, windowMs: 60_000 }],
  kinds: ["video"],
  meter,
  forced: sentFields,
  retry: "creates",
  errors: "video",
  readCode: readVideoCode,
  jobUnit: unitOf,
  creates: "video_job",
  readBack: { kind: "known", answer: acknowledgement },
});

export const videoJob = endpoint({
  id: "video.jobs",
  method: "GET",
  path: "/v1/video/jobs/{id}",
  summary: "A video job of the last 7 days, with a fresh link once it is completed",
  scope: "inference",
  body: nothing,
  flow: { kind: "poll" },
  kinds: [],
  retry: "safe",
  errors: "video",
  readCode: readVideoCode,
  owned: [{ kind: "video_job", at: "path.id" }],
});

export const videoPrices = endpoint({
  id: "video.pricing",
  method: "GET",
  path: "/platform/models/{model}/pricing",
  summary: "The rates of a video model",
  scope: "inference",
  body: nothing,
  modelParam: "model",
  flow: { kind: "prices" },
  kinds: ["video"],
  retry: "safe",
  errors: "video",
  readCode: readVideoCode,
});
