import { beforeEach, expect, test } from "vitest";
import { measureMs } from "../../sandbox/audio/measure.ts";
import { advance, BASE, call, executions, fault, json, post, rowOf } from "../support/worker/sandbox-client.ts";

const MODEL = "service-video-gen-2.0";
const submit = (extra: object = {}, headers: Record<string, string> = {}, key?: string) =>
  post("/v1/video/generations", { model: MODEL, prompt: "a toll gate at dawn", ...extra }, headers, key);
const quote = (extra: object = {}) =>
  post("/v1/video/quote", { model: MODEL, prompt: "a toll gate at dawn", ...extra });
const poll = (id: string, key?: string) => call(`/v1/video/jobs/${id}`, {}, key);
const https = (query: string) => `https://media.example/x?${query}`;

/** A finished job. */
async function finish(extra: object = {}, headers?: Record<string, string>) {
  const { id } = await json(submit(extra, headers), 202);
  await advance(10_000);
  return json(poll(id));
}

beforeEach(async () => {
  await advance(60_000);
});

test("a job is queued, then processing, then completed with a link and its billing", async () => {
  const accepted = await json(submit({ aspect_ratio: "16:9" }), 202);
  expect(accepted).toEqual({ id: expect.stringMatching(/^vid_/), status: "processing", model: MODEL });
  expect((await json(poll(accepted.id))).status).toBe("queued");
  await advance(2_000);
  expect((await json(poll(accepted.id))).status).toBe("processing");
  await advance(8_000);
  const job = await json(poll(accepted.id));
  expect(job).toMatchObject({ id: accepted.id, status: "completed", model: MODEL, width: 1280, height: 720 });
  expect(job.billing).toMatchObject({
    pricing_tier: "720p",
    resolution: "720p",
    duration_seconds: 5,
    usage_source: expect.any(String),
  });
  expect(job.billing.charge_usd).toBeCloseTo((job.billing.billable_tokens * 7) / 1e6, 6);
  expect(Date.parse(job.completed_at) - Date.parse(job.created_at)).toBe(10_000);
  expect(job).not.toHaveProperty("aspect_ratio");
});

test("the link serves an mp4 for 30 minutes without a key; polling again makes a fresh one", async () => {
  const job = await finish({ duration: 4 });
  const path = job.url.replace(BASE, "");
  const video = await call(path, {}, "");
  expect(video.headers.get("content-type")).toBe("video/mp4");
  expect(measureMs(new Uint8Array(await video.arrayBuffer()))).toBe(4_000);
  await advance(30 * 60_000);
  expect((await call(path, {}, "")).status).toBe(404);
  const { url } = await json(poll(job.id));
  const again = await call(url.replace(BASE, ""), {}, "");
  expect(again.status).toBe(200);
  await again.arrayBuffer();
});

const SIZES = {
  "480p": ["864x496", "752x560", "640x640", "560x752", "496x864", "992x432"],
  "720p": ["1280x720", "1112x834", "960x960", "834x1112", "720x1280", "1470x630"],
  "1080p": ["1920x1080", "1664x1248", "1440x1440", "1248x1664", "1080x1920", "2206x946"],
  "4k": ["3840x2160", "3326x2494", "2880x2880", "2494x3326", "2160x3840", "4398x1886"],
};
test.each(Object.entries(SIZES))("%s has the pixel sizes of the table", async (resolution, sizes) => {
  for (const [index, aspect_ratio] of ["16:9", "4:3", "1:1", "3:4", "9:16", "21:9"].entries()) {
    const job = await finish({ resolution, aspect_ratio });
    expect(`${job.width}x${job.height}`).toBe(sizes[index]);
  }
});

test("adaptive takes the shape of the first reference and reports the ratio", async () => {
  const job = await finish({ reference_image_urls: [https("width=600&height=1000")] });
  expect(job).toMatchObject({ aspect_ratio: "9:16", width: 720, height: 1280 });
  expect((await finish()).aspect_ratio).toMatch(/^\d+:\d+$/);
});

test.each([
  [{ duration: 3 }, 4],
  [{ duration: 4 }, 4],
  [{ duration: 15 }, 15],
  [{ duration: 16 }, 15],
  [{}, 5],
  [{ num_frames: 192, fps: 24 }, 8],
  [{ num_frames: 192, fps: 24, duration: 6 }, 6],
  [{ seed: 1, width: 5, height: 5, num_inference_steps: 9 }, 5],
])("%o lasts %i s", async (extra, seconds) => {
  expect((await finish(extra)).billing.duration_seconds).toBe(seconds);
});

const image = (role?: string) => ({ url: https("kind=png"), ...(role && { role }) });
const [video, audio] = [https("kind=mp4"), https("kind=wav")];

test.each([
  ["rule 1", { reference_images: [image("first_frame"), image("reference_image")] }],
  ["rule 1", { reference_images: [image("first_frame"), image()] }],
  ["rule 2", { reference_images: [image("last_frame")] }],
  ["rule 3", { reference_images: [image("first_frame"), image("first_frame")] }],
  ["rule 4", { reference_images: [image("first_frame")], reference_video_url: video }],
  ["rule 4", { reference_images: [image("first_frame")], reference_audio_url: audio }],
  ["rule 5", { reference_audio_url: audio }],
  ["rule 6", { reference_video_url: video, reference_video_urls: [video] }],
  ["rule 6", { reference_audio_url: audio, reference_audio_urls: [audio], reference_video_url: video }],
  ["rule 6", { reference_images: [image()], reference_image_urls: [https("")] }],
  ["prompt", { prompt: undefined }],
  ["resolution", { resolution: "8k" }],
  ["aspect_ratio", { aspect_ratio: "2:1" }],
  ["duration", { duration: 4.5 }],
  ["reference_image_urls", { reference_image_urls: Array(10).fill(https("")) }],
  ["reference_video_urls", { reference_video_urls: Array(4).fill(https("duration=2")) }],
  ["reference_audio_urls", { reference_audio_urls: Array(4).fill(https("duration=2")), reference_video_url: video }],
  ["base64", { reference_image_urls: ["data:image/png;base64,AAAA"] }],
])("%s is refused before a job is made, by quotes too", async (rule, extra) => {
  for (const answer of [submit(extra), quote(extra)]) {
    expect(await json(answer, 400)).toEqual({ error: expect.stringContaining(rule), code: "invalid_request" });
  }
});

test.each([
  { reference_images: [image("first_frame")] },
  { reference_images: [image("first_frame"), image("last_frame")] },
  { reference_images: Array(9).fill(image("reference_image")), reference_video_url: video, reference_audio_url: audio },
  { reference_video_urls: Array(3).fill(https("duration=5")) },
])("%o is a mode", async (extra) => {
  await json(submit(extra), 202);
});

const media = (kind: string, query: string) =>
  submit(
    kind === "image"
      ? { reference_image_urls: [https(query)] }
      : { [`reference_${kind}_url`]: https(query), ...(kind === "audio" && { reference_image_urls: [https("")] }) },
  );

test.each([
  ["image", "unreachable=1", "reference_media_unreachable"],
  ["image", "kind=svg", "reference_media_unreachable"],
  ["image", "filtered=1", "content_filtered.input_image"],
  ["image", "width=299", "invalid_request"],
  ["image", "width=6001&height=6000", "invalid_request"],
  ["image", "width=1001&height=400", "invalid_request"],
  ["image", `bytes=${30 * 2 ** 20 + 1}`, "invalid_request"],
  ["video", "filtered=1", "content_filtered.input_video"],
  ["video", "duration=1.9", "reference_media_too_long"],
  ["video", "duration=15.1", "reference_media_too_long"],
  ["video", "fps=23", "invalid_request"],
  ["video", "fps=61", "invalid_request"],
  ["video", "width=640&height=639", "invalid_request"],
  ["video", "width=4000&height=2160", "invalid_request"],
  ["video", "vcodec=vp9", "invalid_request"],
  ["video", "acodec=opus", "invalid_request"],
  ["video", `bytes=${200 * 2 ** 20 + 1}`, "invalid_request"],
  ["audio", "kind=flac", "reference_media_unreachable"],
  ["audio", "filtered=1", "content_filtered.input_audio"],
  ["audio", "duration=16", "reference_media_too_long"],
  ["audio", `bytes=${15 * 2 ** 20 + 1}`, "invalid_request"],
])("a reference %s with %s is refused as %s", async (kind, query, code) => {
  expect((await json(media(kind, query), 400)).code).toBe(code);
});

test.each([
  ["image", `width=300&height=300&bytes=${30 * 2 ** 20}`],
  ["image", "width=1000&height=400"],
  ["video", "width=640&height=640&fps=24&duration=2"],
  ["video", "width=3839&height=2160&fps=60&duration=15&kind=mov&vcodec=h265&acodec=mp3"],
  ["audio", "kind=mp3&duration=15"],
])("a reference %s at its limits (%s) is taken", async (kind, query) => {
  await json(media(kind, query), 202);
});

test("clips of one kind total at most 15 s", async () => {
  const clips = (...seconds: number[]) => ({ reference_video_urls: seconds.map((one) => https(`duration=${one}`)) });
  await json(submit(clips(5, 10)), 202);
  expect((await json(submit(clips(5, 10.5)), 400)).code).toBe("reference_media_too_long");
});

test("a quote's range holds the real usage; a reference video has its own rate", async () => {
  for (const extra of [{}, { resolution: "4k" }, { resolution: "480p", reference_video_url: video }]) {
    const offer = await json(quote(extra));
    const { billing } = await finish(extra);
    expect(offer).toMatchObject({ currency: "USD", pricing_tier: billing.pricing_tier, note: expect.any(String) });
    expect(billing.billable_tokens).toBeGreaterThan(offer.estimated_tokens_min);
    expect(billing.billable_tokens).toBeLessThan(offer.estimated_tokens_max);
    expect(billing.charge_usd).toBeLessThanOrEqual(offer.estimated_cost_max_usd);
  }
  expect((await json(quote({ reference_video_url: video }))).unit_price_per_1m_tokens).toBe(4.3);
  const { rates } = await json(call(`/platform/models/${MODEL}/pricing`));
  expect(rates).toHaveLength(6);
});

test("the log learns a job's usage when its time comes, polled or not; a failed one used nothing", async () => {
  await json(submit({ reference_video_url: video, resolution: "480p" }, { "x-request-id": "never-polled" }), 202);
  await json(submit({ prompt: "[fail-job:internal_error]" }, { "x-request-id": "fails" }), 202);
  expect((await rowOf("never-polled")).usage).toBe(null);
  await advance(10_000);
  const usage = (await rowOf("never-polled")).usage;
  expect(usage?.video_tokens_720p_reference).toBeGreaterThan(0);
  expect((await rowOf("fails")).usage).toEqual({});
});

test.each([
  ["invalid_request", 400],
  ["reference_media_unreachable", 400],
  ["reference_media_too_long", 400],
  ["content_filtered.input_text", 400],
  ["capacity_exceeded", 429],
  ["generation_timeout", 504],
  ["internal_error", 502],
  ["model_unavailable", 503],
])("a prompt can have its submission refused with %s (%i)", async (code, status) => {
  expect(await json(submit({ prompt: `x [fail:${code}]` }), status)).toEqual({ error: expect.any(String), code });
});

test.each([
  ["[fail:content_filtered.output_text]", "content_filtered.output_text", false],
  ["[fail:content_filtered.output_image]", "content_filtered.output_image", false],
  ["[fail:content_filtered.output_video]", "content_filtered.output_video", false],
  ["[fail:content_filtered.output_audio]", "content_filtered.output_audio", false],
  ["[fail-job:generation_timeout]", "generation_timeout", true],
  ["[fail-job:capacity_exceeded]", "capacity_exceeded", true],
  ["[fail-job:model_unavailable]", "model_unavailable", false],
])("a prompt with %s is accepted, then its job fails and polls answer 200", async (prompt, code, retryable) => {
  const job = await finish({ prompt });
  expect(job).toMatchObject({ status: "failed", code, retryable, error: expect.any(String), model: MODEL });
  expect(job).toHaveProperty("completed_at");
  expect(job).not.toHaveProperty("billing");
});

test("a fault fails a job too, and takes billing away from a poll", async () => {
  await fault({ match: { path: "/v1/video/generations" }, fault: "job_failure", code: "internal_error", times: 1 });
  expect((await finish()).status).toBe("failed");
  const { id } = await finish();
  await fault({ match: { path: "/v1/video/jobs" }, fault: "no_usage", times: 1 });
  expect(await json(poll(id))).not.toHaveProperty("billing");
  await fault({ match: { path: "/v1/video/generations" }, fault: "status", status: 429, times: 1 });
  expect(await json(submit(), 429)).toHaveProperty("code", "capacity_exceeded");
});

test("an account submits 10 in 60 s; failed submissions do not count", async () => {
  for (let made = 0; made < 10; made++) await json(submit(), 202);
  await json(submit({ duration: "x" }), 400);
  const before = (await executions()).length;
  const refused = await submit();
  expect(refused.headers.get("retry-after")).toBeTruthy();
  expect((await json(refused, 429)).code).toBe("rate_limit_exceeded");
  expect((await executions()).length).toBe(before);
  await json(submit({}, {}, "sandbox-other-key"), 202);
  await advance(60_000);
  await json(submit(), 202);
});

test("jobs of others and unknown ones are the same 404; other models and bad keys have video's shape", async () => {
  const { id } = await json(submit({}, { "x-sandbox-region": "us-east-1" }), 202);
  expect((await json(poll(id, "sandbox-other-key"), 404)).code).toBe("not_found");
  expect((await json(poll("vid_nothing"), 404)).code).toBe("not_found");
  await json(call(`/regions/eu-west-1/v1/video/jobs/${id}`), 404);
  expect(await json(submit({ model: "llama-7b" }), 400)).toHaveProperty("code", "invalid_request");
  expect(await json(submit({ model: "none" }), 404)).toHaveProperty("code", "model_not_found");
  expect(await json(submit({}, {}, "sandbox-wrong"), 401)).toEqual({
    error: expect.any(String),
    code: "invalid_api_key",
  });
});
