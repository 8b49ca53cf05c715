/**
 * URLs that an engine would fetch (docs/design.md, section 6): told by the field's name, because text is not
 * searched. Only the form of an address is judged; a public name that resolves to a private address is the engine's
 * network's to stop.
 */
import { urlFault } from "../../formats/public-url.ts";

/** `image_url`, `reference_video_urls`, `imageUri`, `file_url_2`; of a folded name. */
const URL_NAME = /(?:ur[il]|href)s?\d*$/;
/** Fields of media: base64 in most engines, and a URL or a path in some. Folded. */
const MEDIA: ReadonlySet<string> = new Set(
  (
    "image images imagedata inputimage initimage controlimage mask video videos videodata inputvideo audio audios " +
    "audiodata inputaudio refaudio sourceaudio referenceaudio promptaudio speakerwav file files filedata inputfile media"
  ).split(" "),
);
/** Media as well, among other things. */
const MAYBE_MEDIA = "data";

/** Folded names that matter whatever their endings are. */
export const FETCHED_NAMES: readonly string[] = [...MEDIA, MAYBE_MEDIA];

export type Fetched = "url" | "media" | "maybe_media";

/** What an engine may fetch of a field's text; undefined: nothing. `folded`: the field's name. */
export function fetchedBy(folded: string): Fetched | undefined {
  if (URL_NAME.test(folded)) return "url";
  if (MEDIA.has(folded)) return "media";
  return folded === MAYBE_MEDIA ? "maybe_media" : undefined;
}

const DATA_URL = /^data:/i;
const ADDRESS = /^(?:[a-z][a-z0-9+.-]{0,30}:\/|(?:file|data):)/i;
/** A path of the engine's machine. No base64 of media begins so: `/9j/` is a picture, `//u` a sound. */
const LOCAL_PATH = /^(?:\/[A-Za-z]|\.{1,2}\/|~\/|[A-Za-z]:\\)/;

/** What is wrong with it, in words for the caller; undefined: nothing. */
export function fetchFault(fetched: Fetched, text: string): string | undefined {
  if (text === "" || DATA_URL.test(text)) return undefined;
  if (fetched === "url") return text.includes("://") ? urlFault(text) : "must be an https URL or a data URL";
  // What is no address is megabytes of base64.
  const start = text.trimStart().slice(0, 40);
  if (ADDRESS.test(start)) return urlFault(text);
  if (fetched === "media" && LOCAL_PATH.test(start)) return "must be an https URL, a data URL or base64";
  return undefined;
}
