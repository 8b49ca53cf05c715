/**
 * URLs that an engine would fetch (docs/design.md, section 6). What an engine fetches cannot be listed, so every string
 * that is an address is judged, but in fields of text: there it is not searched. Only the form of an address is judged; a
 * public name that resolves to a private address is the engine's network's to stop.
 */
import { urlFault } from "../../formats/public-url.ts";

const words = (text: string): ReadonlySet<string> => new Set(text.split(" "));

/** `image_url`, `reference_video_urls`, `imageUri`, `file_url_2`; of a folded name. */
const URL_NAME = /(?:ur[il]|href)s?\d*$/;
/** Fields of media: base64 in most engines, and a URL or a path in some. Folded. */
const MEDIA = words(
  "image images imagedata inputimage initimage controlimage imagepath mask video videos videodata inputvideo videopath " +
    "audio audios audiodata inputaudio refaudio sourceaudio referenceaudio promptaudio audiopath speakerwav file files " +
    "filedata inputfile media thumbnail",
);
/** Fields of text, of names and of patterns: what stands there is read by a model or a person, or is compared. Folded. */
const TEXT = words(
  "content text input output instructions refusal summary thinking reasoning reasoningcontent transcript prompt " +
    "negativeprompt systemprompt code query queries question title name filename description caption lyrics message " +
    "error stop stopsequences badwords prefix suffix tags command diff stdout stderr logs signature encryptedcontent " +
    "schema grammar definition pattern regex choice guidedregex guidedchoice guidedgrammar ebnf",
);
/** An item or part of such a type carries media, under whatever name. Folded. */
const MEDIA_TYPE =
  /^(?:input|output)?(?:image|picture|photo|video|audio|sound|file|media|document|pdf)(?:url|data|path|embeds)?s?$/;

/** Folded names that matter whatever their endings are. */
export const FETCHED_NAMES: readonly string[] = [...MEDIA, ...TEXT];

/** `address`: only where it is one. */
export type Fetched = "url" | "media" | "address" | "text";

/** What an engine may fetch of a field's text. `folded`: the field's name. */
export function fetchedBy(folded: string): Fetched {
  if (URL_NAME.test(folded)) return "url";
  if (MEDIA.has(folded)) return "media";
  return TEXT.has(folded) ? "text" : "address";
}

export const isMediaType = (folded: string): boolean => MEDIA_TYPE.test(folded);

const DATA_URL = /^data:/i;
const ADDRESS = /^\s*(?:[a-z][a-z0-9+.-]{0,30}:\/|(?:https?|ftp|file|data):)/i;
export const isAddress = (text: string): boolean => ADDRESS.test(text);

/** A path of the engine's machine. No base64 of media begins so: `/9j/` is a picture, `//u` a sound. */
const LOCAL_PATH = /^\s*(?:\/[A-Za-z]|\.{1,2}\/|~\/|[A-Za-z]:\\|\\)/;

/** What is wrong with it, in words for the caller; undefined: nothing. */
export function fetchFault(fetched: Fetched, text: string): string | undefined {
  if (fetched === "text" || text === "" || DATA_URL.test(text)) return undefined;
  if (fetched === "url") return text.includes("://") ? urlFault(text) : "must be an https URL or a data URL";
  // What is no address may be megabytes of base64: only its beginning is looked at.
  if (isAddress(text)) return urlFault(text);
  if (fetched === "media" && LOCAL_PATH.test(text)) return "must be an https URL, a data URL or base64";
  return undefined;
}
