/** Video jobs for tests of the account object: an upstream whose jobs end when and as the test says, behind `fetch`. */
import { env } from "cloudflare:workers";
import { type MockInstance, vi } from "vitest";
import type { AdmitRequest } from "../../../src/core/account/hold.ts";
import { videoGenerations } from "../../../src/core/endpoints/inference/video.ts";
import type { ModelRow } from "../../../src/core/pricing/prices.ts";
import { DEFAULT_TIMEOUTS } from "../../../src/core/routing/routes.ts";
import type { NewJob } from "../../../src/core/video/jobs.ts";
import { putUpstream } from "../../../src/platform/d1/upstreams.ts";
import { readSecrets } from "../../../src/platform/secrets.ts";
import { call, request, row, type Stub } from "./account-support.ts";

const UPSTREAM = "video-upstream";
const HOST = "https://video-upstream.example";
const CREDENTIAL = "credential-of-the-operator";

/** One nano-USD per token. */
export const VIDEO_ROW: ModelRow = row({
  model: "video",
  kind: "video",
  costNanoUsd: { video_tokens_720p: 1_000_000, video_tokens_4k_reference: 2_000_000 },
});

/** How the upstream answers a poll of one job. */
type Script = () => Response | Promise<Response>;

export interface FakeUpstream {
  /** By job id; what is not here is unknown. */
  readonly jobs: Map<string, Script>;
  /** Ids that were polled, in order. */
  readonly polls: string[];
  readonly headers: Headers[];
  readonly fetch: MockInstance<typeof fetch>;
}

/** Stands behind `fetch` until mocks are restored. */
export async function fakeUpstream(): Promise<FakeUpstream> {
  const secrets = await readSecrets(env);
  if (!secrets.ok) throw new Error(secrets.fault.message);
  const sealedApiKey = await secrets.secrets.seal(UPSTREAM, CREDENTIAL);
  await putUpstream(
    env.BOOKS,
    { id: UPSTREAM, baseUrl: HOST, region: null, shared: false, sealedApiKey, timeouts: DEFAULT_TIMEOUTS },
    Date.now(),
  );
  const jobs = new Map<string, Script>();
  const polls: string[] = [];
  const headers: Headers[] = [];
  const mock = vi.spyOn(globalThis, "fetch").mockImplementation(async (input, init) => {
    const url = new URL(String(input));
    if (url.origin !== HOST) throw new Error(`unexpected call of ${url}`);
    const id = decodeURIComponent(url.pathname.replace("/v1/video/jobs/", ""));
    polls.push(id);
    headers.push(new Headers(init?.headers));
    return jobs.get(id)?.() ?? Response.json({ error: "no such job", code: "not_found" }, { status: 404 });
  });
  return { jobs, polls, headers, fetch: mock };
}

const STAMPS = { created_at: "2026-01-01T00:00:00Z", completed_at: "2026-01-01T00:01:00Z" };
export const running = (id: string) =>
  Response.json({ id, status: "processing", model: "m", created_at: STAMPS.created_at });
export const completed = (id: string, tokens: unknown, fields: Record<string, unknown> = {}) =>
  Response.json({
    id,
    status: "completed",
    model: "m",
    width: 1280,
    height: 720,
    ...STAMPS,
    url: `https://files.example/${id}.mp4`,
    billing: {
      charge_usd: 99,
      pricing_tier: "operator's",
      resolution: "720p",
      duration_seconds: 5,
      billable_tokens: tokens,
      usage_source: "engine",
    },
    ...fields,
  });
export const failed = (id: string, code: string, fields: Record<string, unknown> = {}) =>
  Response.json({ id, status: "failed", model: "m", ...STAMPS, error: "It failed.", code, retryable: true, ...fields });

/** Asks for a hold of `maxTokens` at `VIDEO_ROW`'s prices for a submission. */
export const submission = (id: string, maxTokens = 100, some: Partial<AdmitRequest> = {}): AdmitRequest =>
  request(id, 0, {
    endpoint: "video.generations",
    limits: videoGenerations.limits,
    model: "video",
    row: VIDEO_ROW,
    bound: { fixed: { video_tokens_720p: maxTokens } },
    job: true,
    ...some,
  });

/** The job that the upstream acknowledged for the call of the same name. */
export const newJob = (id: string, maxTokens = 100, some: Partial<NewJob> = {}): NewJob => ({
  id: `job-${id}`,
  callId: call(id),
  upstream: UPSTREAM,
  targetModel: "service-video",
  region: "eu",
  unit: "video_tokens_720p",
  estimate: { minTokens: Math.floor(maxTokens / 2), maxTokens },
  costNanoUsd: 500_000,
  ...some,
});

/** Admitted and acknowledged. */
export async function submit(stub: Stub, id: string, maxTokens = 100): Promise<string> {
  const admission = await stub.admit(submission(id, maxTokens));
  if (!admission.ok) throw new Error(JSON.stringify(admission.refusal));
  await stub.begin(newJob(id, maxTokens));
  return `job-${id}`;
}
