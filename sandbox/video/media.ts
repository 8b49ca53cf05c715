/**
 * Checks of reference media at submission. Nothing is fetched: a URL's query describes the media, such as
 * `?kind=png&width=1024&height=768&bytes=90000`, `&duration=5&fps=30&vcodec=h264&acodec=aac`, `&unreachable=1` or
 * `&filtered=1`. Everything left out is within the limits.
 */
import { done, type Outcome } from "../refusal.ts";
import { refuseVideo, type VideoCode } from "./codes.ts";
import type { References } from "./request.ts";
import type { Size } from "./sizes.ts";

type Kind = "image" | "video" | "audio";
const MB = 1024 * 1024;
const SIDE = { least: 300, most: 6_000 };
const RATIO = { least: 0.4, most: 2.5 };
const VIDEO_PIXELS = { least: 409_600, most: 8_295_044 };
const FPS = { least: 24, most: 60 };
const CLIP_S = { least: 2, most: 15 };
const LONGEST_TOTAL_S = 15;

const FORMATS: Readonly<Record<Kind, readonly string[]>> = {
  image: ["jpeg", "jpg", "png", "webp", "bmp", "tiff", "gif", "heic", "heif"],
  video: ["mp4", "mov", "quicktime"],
  audio: ["wav", "mp3"],
};
const LARGEST: Readonly<Record<Kind, number>> = { image: 30 * MB, video: 200 * MB, audio: 15 * MB };
const VIDEO_CODECS = ["h264", "h265"];
const AUDIO_CODECS = ["aac", "mp3"];

/** What the checks found about all references together. */
export interface Looked {
  /** Of the first image, or else the first video. */
  readonly firstSize: Size | null;
  readonly videoSeconds: number;
}

export function lookAt({ images, videos, audios }: References): Outcome<Looked> {
  const all = [
    ...images.map(({ url }) => found(url, "image")),
    ...videos.map((url) => found(url, "video")),
    ...audios.map((url) => found(url, "audio")),
  ];
  for (const one of all) {
    const fault = faultOf(one);
    if (fault) return refuseVideo(fault.code, `${one.url.href.split("?")[0]}: ${fault.message}`);
  }
  const total = (kind: Kind) => all.filter((one) => one.kind === kind).reduce((sum, one) => sum + one.seconds, 0);
  for (const kind of ["video", "audio"] as const) {
    if (total(kind) > LONGEST_TOTAL_S) {
      return refuseVideo("reference_media_too_long", `Reference ${kind} totals more than ${LONGEST_TOTAL_S} seconds.`);
    }
  }
  const first = all.find((one) => one.kind !== "audio");
  return done({
    firstSize: first ? { width: first.width, height: first.height } : null,
    videoSeconds: total("video"),
  });
}

interface Found {
  readonly url: URL;
  readonly kind: Kind;
  readonly format: string;
  readonly width: number;
  readonly height: number;
  readonly seconds: number;
  readonly bytes: number;
}

function found(text: string, kind: Kind): Found {
  const url = new URL(text);
  const fact = (name: string, preset: number) => Number(url.searchParams.get(name) ?? preset);
  const [width, height] = kind === "image" ? [1_024, 1_024] : [1_280, 720];
  return {
    url,
    kind,
    format: (url.searchParams.get("kind") ?? FORMATS[kind][0] ?? "").toLowerCase(),
    width: fact("width", width),
    height: fact("height", height),
    seconds: kind === "image" ? 0 : fact("duration", 5),
    bytes: fact("bytes", MB),
  };
}

function faultOf(one: Found): { code: VideoCode; message: string } | undefined {
  const problem = (code: VideoCode, message: string) => ({ code, message });
  const { url, kind, format, seconds, bytes } = one;
  if (url.searchParams.has("unreachable")) return problem("reference_media_unreachable", "could not be fetched.");
  if (!FORMATS[kind].includes(format)) return problem("reference_media_unreachable", `is no readable ${kind}.`);
  if (url.searchParams.has("filtered")) return problem(`content_filtered.input_${kind}`, "was rejected.");
  if (bytes > LARGEST[kind]) return problem("invalid_request", `must be at most ${LARGEST[kind] / MB} MB.`);
  if (kind !== "image" && outside(seconds, CLIP_S)) {
    return problem("reference_media_too_long", "must last 2 to 15 seconds.");
  }
  const shape = kind === "audio" ? undefined : shapeFault(one);
  return shape === undefined ? undefined : problem("invalid_request", shape);
}

function shapeFault({ url, kind, width, height }: Found): string | undefined {
  if (outside(width, SIDE) || outside(height, SIDE)) return "must have 300 to 6000 pixels a side.";
  if (outside(width / height, RATIO)) return "must have a width of 0.4 to 2.5 times its height.";
  if (kind === "image") return undefined;
  if (outside(width * height, VIDEO_PIXELS)) return "must have 409,600 to 8,295,044 pixels.";
  if (outside(Number(url.searchParams.get("fps") ?? 24), FPS)) return "must have 24 to 60 frames a second.";
  if (!VIDEO_CODECS.includes(url.searchParams.get("vcodec") ?? "h264")) return "must be H.264 or H.265.";
  if (!AUDIO_CODECS.includes(url.searchParams.get("acodec") ?? "aac")) return "must have AAC or MP3 sound.";
  return undefined;
}

const outside = (value: number, { least, most }: { least: number; most: number }): boolean =>
  !(value >= least && value <= most);
