/**
 * The body of a video submission and of a quote (contract, POST /v1/video/generations): fields, defaults, the clamp of
 * `duration`, valid combinations. Limits that the contract calls approximate are not enforced here. Media are checked
 * only by URL; the service checks their content at submission.
 */
import * as z from "zod/mini";
import { characters } from "../shapes.ts";
import { brokenRule, REFERENCE_FIELDS, referencesOf } from "./references.ts";

const RESOLUTIONS = ["480p", "720p", "1080p", "4k"] as const;
export type Resolution = (typeof RESOLUTIONS)[number];
const DEFAULT_RESOLUTION: Resolution = "720p";
const ASPECT_RATIOS = ["16:9", "4:3", "1:1", "3:4", "9:16", "21:9", "adaptive"] as const;

/** Seconds. A duration outside these bounds is clamped, never refused. */
const SHORTEST_S = 4;
const LONGEST_S = 15;
const DEFAULT_S = 5;

export const VideoRequest = z
  .looseObject({
    model: characters(1, 256),
    prompt: z.string().check(z.refine((text) => text.trim() !== "", "must be text: every mode needs a prompt")),
    resolution: z.nullish(z.enum(RESOLUTIONS)),
    duration: z.nullish(z.int()),
    aspect_ratio: z.nullish(z.enum(ASPECT_RATIOS)),
    generate_audio: z.nullish(z.boolean()),
    ...REFERENCE_FIELDS,
    // Used only to derive a missing duration, and checked only then.
    num_frames: z.optional(z.unknown()),
    fps: z.optional(z.unknown()),
  })
  .check(
    z.superRefine((body, context) => {
      const broken = brokenRule(body);
      if (broken) context.addIssue({ code: "custom", path: [broken.field], message: broken.message });
      if (isGiven(body.duration)) return;
      for (const field of ["num_frames", "fps"] as const) {
        if (!isGiven(body[field]) || isPositive(body[field])) continue;
        context.addIssue({ code: "custom", path: [field], message: "must be a number above zero" });
      }
    }),
  );
export type VideoRequest = z.output<typeof VideoRequest>;

const isGiven = (value: unknown): boolean => value !== undefined && value !== null;
const isPositive = (value: unknown): value is number =>
  typeof value === "number" && Number.isFinite(value) && value > 0;

/**
 * The effective duration in whole seconds: the caller's, or frames divided by frame rate if both are given; clamped.
 */
function secondsOf({ duration, num_frames, fps }: VideoRequest): number {
  const derived = isPositive(num_frames) && isPositive(fps) ? Math.round(num_frames / fps) : DEFAULT_S;
  return Math.min(LONGEST_S, Math.max(SHORTEST_S, duration ?? derived));
}

export const resolutionOf = (body: VideoRequest): Resolution => body.resolution ?? DEFAULT_RESOLUTION;

export const hasReferenceVideo = (body: VideoRequest): boolean => referencesOf(body).videos > 0;

/** Fields for which null means the same as leaving them out. */
const OPTIONAL = ["resolution", "aspect_ratio", "generate_audio", ...Object.keys(REFERENCE_FIELDS)] as const;

/**
 * Fields that override the caller's: the effective duration, so that quote and submission read the same, and undefined
 * in place of null.
 */
export function sentFields(body: VideoRequest): Record<string, unknown> {
  const fields: Record<string, unknown> = { duration: secondsOf(body), num_frames: undefined, fps: undefined };
  for (const field of OPTIONAL) if (body[field] === null) fields[field] = undefined;
  return fields;
}
