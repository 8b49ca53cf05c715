/**
 * The body of a video submission or quote: fields, defaults, clamps, and the contract's six rules on combinations. A
 * refusal names the rule.
 */
import { z } from "zod";
import { done, invalid, type Outcome } from "../refusal.ts";
import { RATIOS, RESOLUTIONS } from "./sizes.ts";

const SHORTEST_S = 4;
const LONGEST_S = 15;
const DEFAULT_S = 5;

const url = z
  .string()
  .refine((text) => /^https?:\/\/[^\s/]+/.test(text), "must be a publicly downloadable URL; base64 is not accepted");

const ROLES = ["first_frame", "last_frame", "reference_image"] as const;
type Role = (typeof ROLES)[number];

export const VideoRequest = z.looseObject({
  model: z.string().min(1),
  prompt: z.string().trim().min(1),
  resolution: z.enum(RESOLUTIONS).default("720p"),
  duration: z.int().optional(),
  aspect_ratio: z.enum([...RATIOS, "adaptive"]).default("adaptive"),
  generate_audio: z.boolean().default(true),
  reference_images: z
    .array(z.looseObject({ url, role: z.enum(ROLES).default("reference_image") }))
    .max(9)
    .optional(),
  reference_image_urls: z.array(url).max(9).optional(),
  reference_video_urls: z.array(url).max(3).optional(),
  reference_audio_urls: z.array(url).max(3).optional(),
  reference_video_url: url.optional(),
  reference_audio_url: url.optional(),
  num_frames: z.number().positive().optional(),
  fps: z.number().positive().optional(),
  /** The sandbox's own: how long the job takes, by the sandbox's clock. */
  sandbox_job_seconds: z.number().min(0).max(86_400).optional(),
});
export type VideoRequest = z.output<typeof VideoRequest>;

/** The request's references, in whichever form they were given. */
export interface References {
  readonly images: readonly { readonly url: string; readonly role: Role }[];
  readonly videos: readonly string[];
  readonly audios: readonly string[];
}

/** Seconds: clamped, not refused. Computed from frames only if there is no duration. */
export function secondsOf({ duration, num_frames, fps }: VideoRequest): number {
  const derived = num_frames !== undefined && fps !== undefined ? Math.round(num_frames / fps) : DEFAULT_S;
  return Math.min(LONGEST_S, Math.max(SHORTEST_S, duration ?? derived));
}

export function referencesOf(body: VideoRequest): Outcome<References> {
  const doubled = bothForms(body);
  if (doubled) return invalid(`rule 6: \`${doubled}\` and its other form cannot both be given.`, doubled);
  const images =
    body.reference_images ??
    (body.reference_image_urls ?? []).map((one) => ({ url: one, role: "reference_image" as const }));
  const videos = body.reference_video_urls ?? (body.reference_video_url ? [body.reference_video_url] : []);
  const audios = body.reference_audio_urls ?? (body.reference_audio_url ? [body.reference_audio_url] : []);
  const broken = brokenRule({ images, videos, audios });
  return broken ? invalid(broken, "reference_images") : done({ images, videos, audios });
}

function bothForms(body: VideoRequest): string | undefined {
  const pairs = [
    ["reference_video_url", "reference_video_urls"],
    ["reference_audio_url", "reference_audio_urls"],
    ["reference_images", "reference_image_urls"],
  ] as const;
  return pairs.find(([one, other]) => body[one] !== undefined && body[other] !== undefined)?.[0];
}

function brokenRule({ images, videos, audios }: References): string | undefined {
  const count = (role: Role) => images.filter((image) => image.role === role).length;
  const [first, last, reference] = [count("first_frame"), count("last_frame"), count("reference_image")];
  if (reference > 0 && first + last > 0)
    return "rule 1: reference_image cannot be mixed with first_frame or last_frame.";
  if (last > 0 && first === 0) return "rule 2: last_frame needs a first_frame.";
  if (first > 1 || last > 1) return "rule 3: at most one first_frame and one last_frame.";
  if (first + last > 0 && videos.length + audios.length > 0) {
    return "rule 4: first_frame and last_frame cannot be combined with reference video or audio.";
  }
  if (audios.length > 0 && images.length + videos.length === 0) {
    return "rule 5: reference audio needs an image or a reference video.";
  }
  return undefined;
}
