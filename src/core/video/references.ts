/**
 * Reference media of a video request: which forms, roles and counts may be combined (contract, POST
 * /v1/video/generations: modes, image roles, rules 1 to 6; "Limits": reference counts). A refusal gives the rule's
 * number.
 */
import * as z from "zod/mini";
import { list } from "../endpoints/list.ts";
import { urlFault } from "../formats/public-url.ts";

const IMAGE_ROLES = ["first_frame", "last_frame", "reference_image"] as const;
type ImageRole = (typeof IMAGE_ROLES)[number];

const MOST_IMAGES = 9;
const MOST_VIDEOS = 3;
const MOST_AUDIOS = 3;

const url = z.string().check(
  z.superRefine((text, context) => {
    const fault = urlFault(text);
    if (fault) context.addIssue({ code: "custom", message: fault });
  }),
);
const image = z.looseObject({ url, role: z.optional(z.enum(IMAGE_ROLES)) });
const upTo = <S extends z.core.$ZodType>(most: number, item: S, what: string) => z.nullish(list(item, { most, what }));

/** The fields of a request that name media. */
export const REFERENCE_FIELDS = {
  reference_images: upTo(MOST_IMAGES, image, "images"),
  reference_image_urls: upTo(MOST_IMAGES, url, "images"),
  reference_video_urls: upTo(MOST_VIDEOS, url, "videos"),
  reference_audio_urls: upTo(MOST_AUDIOS, url, "audio clips"),
  reference_video_url: z.nullish(url),
  reference_audio_url: z.nullish(url),
};
const Given = z.object(REFERENCE_FIELDS);
export type ReferenceFields = z.output<typeof Given>;

/** The media that a request refers to, in either form. */
export interface References {
  /** An image without a role is a `reference_image`, never a first frame. */
  readonly roles: readonly ImageRole[];
  readonly videos: number;
  readonly audios: number;
}

export function referencesOf(body: ReferenceFields): References {
  const images = body.reference_images ?? (body.reference_image_urls ?? []).map(() => ({ role: undefined }));
  return {
    roles: images.map(({ role }) => role ?? "reference_image"),
    videos: (body.reference_video_urls ?? []).length + (body.reference_video_url ? 1 : 0),
    audios: (body.reference_audio_urls ?? []).length + (body.reference_audio_url ? 1 : 0),
  };
}

export interface BrokenRule {
  readonly field: keyof ReferenceFields;
  readonly message: string;
}

/** The two forms of each kind (rule 6). */
const FORMS = [
  ["reference_video_url", "reference_video_urls"],
  ["reference_audio_url", "reference_audio_urls"],
  ["reference_images", "reference_image_urls"],
] as const;

/** The first rule that the request breaks; undefined if none. */
export function brokenRule(body: ReferenceFields): BrokenRule | undefined {
  const given = (field: keyof ReferenceFields) => body[field] !== undefined && body[field] !== null;
  const doubled = FORMS.find(([one, other]) => given(one) && given(other));
  if (doubled) {
    return {
      field: doubled[0],
      message: `breaks rule 6: \`${doubled[0]}\` and \`${doubled[1]}\` cannot both be given`,
    };
  }
  const references = referencesOf(body);
  const { roles, videos, audios } = references;
  const count = (role: ImageRole) => roles.filter((one) => one === role).length;
  const [first, last] = [count("first_frame"), count("last_frame")];
  const broken = (rule: number, message: string, field: keyof ReferenceFields = "reference_images"): BrokenRule => ({
    field,
    message: `breaks rule ${rule}: ${message}`,
  });
  if (count("reference_image") > 0 && first + last > 0) {
    return broken(1, "`reference_image` cannot be mixed with `first_frame` or `last_frame`");
  }
  if (last > 0 && first === 0) return broken(2, "`last_frame` needs a `first_frame`");
  if (first > 1 || last > 1) return broken(3, "at most one `first_frame` and one `last_frame` may be given");
  if (first > 0 && videos + audios > 0) {
    return broken(4, "`first_frame` and `last_frame` cannot be combined with reference video or audio");
  }
  if (audios > 0 && roles.length + videos === 0) {
    const field = given("reference_audio_url") ? "reference_audio_url" : "reference_audio_urls";
    return broken(5, "reference audio needs at least one image or a reference video", field);
  }
  return undefined;
}
