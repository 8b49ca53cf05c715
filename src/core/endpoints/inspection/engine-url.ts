/**
 * URLs that an engine may fetch (docs/design.md, section 6). It is not possible to list every field that an engine
 * fetches, so every string that is an address is checked, except in text fields, which are not searched. Only the form
 * of an address is checked: if a public name resolves to a private address, the engine's network has to stop it.
 */
import { urlFault } from "../../formats/public-url.ts";

const words = (text: string): ReadonlySet<string> => new Set(text.split(" "));

/** Matches folded names such as `image_url`, `reference_video_urls`, `imageUri`, `file_url_2`. */
const URL_NAME = /(?:ur[il]|href)s?\d*$/;
/** Media fields: most engines take base64, some also a URL or a path. Folded. */
const MEDIA = words(
  "image images imagedata inputimage initimage controlimage imagepath mask video videos videodata inputvideo videopath " +
    "audio audios audiodata inputaudio refaudio sourceaudio referenceaudio promptaudio audiopath speakerwav file files " +
    "filedata inputfile media thumbnail",
);
/** Fields for text, names and patterns: their values are read by a model or a person, or compared. Folded. */
const TEXT = words(
  "content text input output instructions refusal summary thinking reasoning reasoningcontent transcript prompt " +
    "negativeprompt systemprompt code query queries question title name filename description caption lyrics message " +
    "error stop stopsequences badwords prefix suffix tags command diff stdout stderr logs signature encryptedcontent " +
    "schema grammar definition pattern regex choice guidedregex guidedchoice guidedgrammar ebnf",
);
/** Types of items and parts that carry media under any field name. Folded. */
const MEDIA_TYPE =
  /^(?:input|output)?(?:image|picture|photo|video|audio|sound|file|media|document|pdf)(?:url|data|path|embeds)?s?$/;

/** Folded names that must be recognized although they do not end like a URL's name. */
export const FETCHED_NAMES: readonly string[] = [...MEDIA, ...TEXT];

/** `address`: fetched only if the value looks like an address. */
export type Fetched = "url" | "media" | "address" | "text";

/** How an engine may use a field's string. `folded`: the field's folded name. */
export function fetchedBy(folded: string): Fetched {
  if (URL_NAME.test(folded)) return "url";
  if (MEDIA.has(folded)) return "media";
  return TEXT.has(folded) ? "text" : "address";
}

export const isMediaType = (folded: string): boolean => MEDIA_TYPE.test(folded);

const DATA_URL = /^data:/i;
const ADDRESS = /^\s*(?:[a-z][a-z0-9+.-]{0,30}:\/|(?:https?|ftp|file|data):)/i;
export const isAddress = (text: string): boolean => ADDRESS.test(text);

/** A path on the engine's machine. Base64 of media never begins like this: `/9j/` is a JPEG, `//u` an MP3. */
const LOCAL_PATH = /^\s*(?:\/[A-Za-z]|\.{1,2}\/|~\/|[A-Za-z]:\\|\\)/;

/** What is wrong with the string, for the error message; undefined if nothing. */
export function fetchFault(fetched: Fetched, text: string): string | undefined {
  if (fetched === "text" || text === "" || DATA_URL.test(text)) return undefined;
  if (fetched === "url") return text.includes("://") ? urlFault(text) : "must be an https URL or a data URL";
  // A string that is not an address may be megabytes of base64, so only its beginning is examined.
  if (isAddress(text)) return urlFault(text);
  if (fetched === "media" && LOCAL_PATH.test(text)) return "must be an https URL, a data URL or base64";
  return undefined;
}
