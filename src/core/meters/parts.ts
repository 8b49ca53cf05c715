/**
 * Counts the parts of a body that a model reads as something other than text: images, and parts of unknown length
 * (video, audio, files, unknown types).
 *
 * It walks the whole body instead of a list of places, because engines read parts wherever an item may be: in a tool's
 * result, beside `content: null`, in a list of frames, without a `type`. Media always travels as a string (a URL or
 * encoded bytes). So a string counts as a part if its field, or a field around it, is named like media or is an item of
 * unknown type; it also counts if it looks like a URL that an engine would fetch and its field is not known to hold
 * text. An item of unknown type counts once even without such a string. When in doubt, it counts.
 */
import { type Steps, WORK_PER_ITEM, WORK_PER_NAME, Work } from "../steps.ts";

export interface Parts {
  /** Each uses at most the row's `max_part_tokens`. */
  readonly images: number;
  /** The body does not say how many tokens these use. */
  readonly unbounded: number;
  /** Bytes of data URLs among the parts; they do not count as text. */
  readonly dataUrlBytes: number;
}

export const NO_PARTS: Parts = { images: 0, unbounded: 0, dataUrlBytes: 0 };

/** Types of items and parts that are text, or whose contents are searched for parts. */
const PLAIN_TYPES: ReadonlySet<string> = new Set([
  ...["text", "input_text", "output_text", "refusal", "summary_text", "reasoning_text", "thinking", "reasoning"],
  ...["reasoning.text", "reasoning.summary"],
  ...["message", "function", "custom", "function_call", "function_call_output", "tool_use", "tool_result"],
  ...["custom_tool_call", "custom_tool_call_output", "tool_call", "computer_call", "computer_call_output"],
  ...["local_shell_call", "local_shell_call_output", "shell_call", "shell_call_output", "apply_patch_call"],
  ...["apply_patch_call_output", "mcp_call", "mcp_list_tools", "mcp_approval_request", "mcp_approval_response"],
  ...["web_search_call", "file_search_call", "code_interpreter_call", "compaction", "logs"],
]);

/** Fields whose strings are text for the model; they count as bytes. */
const TEXT_FIELDS: ReadonlySet<string> = new Set([
  ...["content", "text", "input", "output", "instructions", "refusal", "summary", "thinking", "reasoning"],
  ...["reasoning_content", "transcript", "prompt", "code", "encrypted_content", "signature"],
]);
/** Fields whose object is an item, like the entries of a list. */
const ITEM_FIELDS: ReadonlySet<string> = new Set(["content", "input", "output"]);

/** Fields that describe their neighbours, by the last word of the name. */
const DESCRIPTIVE: ReadonlySet<string> = new Set([
  ...["role", "type", "id", "uuid", "name", "filename", "format", "detail", "title", "status", "phase", "voice"],
  ...["language", "quality", "mime", "size", "effort", "model", "user"],
]);

/** The caller's own data, where no engine looks for parts. It counts as text. */
const OWN_DATA: ReadonlySet<string> = new Set(["arguments", "annotations", "metadata", "logprobs"]);
/** The same, only at the top of a body: definitions, settings and names. */
const OWN_DATA_AT_TOP: ReadonlySet<string> = new Set([
  ...OWN_DATA,
  ...["tools", "functions", "tool_choice", "function_call", "response_format", "text", "stop", "include", "logit_bias"],
  ...[
    "client_metadata",
    "stop_sequences",
    "guided_choice",
    "guided_json",
    "structured_outputs",
    "json_schema",
    "grammar",
  ],
]);

const FETCHED = /^(https?|data|file|ftp|s3|gs):/i;
const DATA_URL = /^data:([\w.+-]+\/[\w.+-]+)?(;[\w.+-]+=[\w.+-]+)*;base64,[A-Za-z0-9+/]*={0,2}$/;

type Kind = "image" | "unbounded";

const IMAGE_WORD = /^(image|img|picture|photo|screenshot|pixel)/;
const UNBOUNDED_WORD = /^(video|audio|sound|speech|file|media|frame|clip|pdf|attachment)/;
const DATA_WORD = /^(b64|base64|blob|bytes)|(url|uri|data)s?$/;

const wordsOf = (name: string): string[] =>
  name
    .replace(/([a-z\d])([A-Z])/g, "$1_$2")
    .toLowerCase()
    .split(/[^a-z\d]+/);

/** What a field's name says about its content; null if it does not suggest media. */
function kindOf(name: string): Kind | "data" | null {
  const words = wordsOf(name);
  if (words.some((word) => UNBOUNDED_WORD.test(word))) return "unbounded";
  if (words.some((word) => IMAGE_WORD.test(word))) return "image";
  return words.some((word) => DATA_WORD.test(word)) ? "data" : null;
}

/** Of the names that most bodies are made of. */
const USUAL_KINDS: ReadonlyMap<string, Kind | "data" | null> = new Map(
  [...TEXT_FIELDS, ...DESCRIPTIVE, "messages", "tools", "image_url", "url"].map((name) => [name, kindOf(name)]),
);

const describes = (name: string): boolean => DESCRIPTIVE.has(wordsOf(name).at(-1) ?? "");

/** `texts`: top-level fields that contain only text. */
export function* countParts(body: object, texts: readonly string[] = []): Steps<Parts> {
  const walk = new Walk();
  for (const [name, value] of Object.entries(body)) {
    if (OWN_DATA_AT_TOP.has(name) || texts.includes(name)) continue;
    // A top-level string is a setting or a prompt, so a URL in it is not a part, unless the field is named like media.
    const inside = typeof value !== "string" || walk.kindOf(name) !== null ? walk.field(name, value, null) : null;
    if (inside) yield* inside;
  }
  return walk.found;
}

/** Names remembered per body, so that one cannot fill the memory. */
const MOST_NAMES = 4_096;

class Walk {
  #images = 0;
  #unbounded = 0;
  #dataUrlBytes = 0;
  readonly #work = new Work();
  /** By name: a body repeats few of them. */
  readonly #kinds = new Map<string, Kind | "data" | null>();

  get found(): Parts {
    return { images: this.#images, unbounded: this.#unbounded, dataUrlBytes: this.#dataUrlBytes };
  }

  /** A message, an item, a part, or an object inside one. */
  *#object(fields: Record<string, unknown>, around: Kind | null, isItem: boolean): Steps<void> {
    const within = isItem ? either(around, kindOfType(fields.type, around)) : around;
    const before = this.#images + this.#unbounded;
    for (const name of Object.keys(fields)) {
      if (this.#work.add(WORK_PER_NAME)) yield this.#work.take();
      const inside = this.field(name, fields[name], within);
      if (inside) yield* inside;
    }
    // A part that refers to its content in another way, e.g. by an id.
    if (isItem && within && this.#images + this.#unbounded === before) this.#add(within);
  }

  /**
   * `around`: the kind that the surrounding fields suggest. Returns the steps for what is inside a list or an object.
   */
  field(name: string, value: unknown, around: Kind | null): Steps<void> | null {
    if (OWN_DATA.has(name)) return null;
    const isObject = typeof value === "object" && value !== null;
    if (!isObject && (typeof value !== "string" || TEXT_FIELDS.has(name))) return null;
    const named = this.kindOf(name);
    const kind = named === "data" ? (around ?? "unbounded") : either(around, named);
    if (isObject) return this.#inside(value, kind, ITEM_FIELDS.has(name));
    if (!describes(name)) this.#string(value, kind);
    return null;
  }

  #inside(value: object, kind: Kind | null, isItem: boolean): Steps<void> {
    return Array.isArray(value)
      ? this.#list(value, kind)
      : this.#object(value as Record<string, unknown>, kind, isItem);
  }

  *#list(items: readonly unknown[], kind: Kind | null): Steps<void> {
    for (const item of items) {
      if (this.#work.add(WORK_PER_ITEM)) yield this.#work.take();
      if (typeof item === "string") this.#string(item, kind);
      else if (typeof item === "object" && item !== null) yield* this.#inside(item, kind, true);
    }
  }

  kindOf(name: string): Kind | "data" | null {
    let kind = USUAL_KINDS.get(name);
    if (kind === undefined) kind = this.#kinds.get(name);
    if (kind === undefined) {
      kind = kindOf(name);
      if (this.#kinds.size < MOST_NAMES) this.#kinds.set(name, kind);
    }
    return kind;
  }

  #string(value: string, kind: Kind | null): void {
    if (value === "" || !(kind || FETCHED.test(value))) return;
    const isData = /^data:/i.test(value);
    this.#add(isData && !/^data:image\//i.test(value) ? "unbounded" : kind);
    if (isData && kind && DATA_URL.test(value)) this.#dataUrlBytes += value.length;
  }

  #add(kind: Kind | null): void {
    if (kind === "image") this.#images++;
    else this.#unbounded++;
  }
}

/** What an item's type says about its content; null for text. An unknown type may be anything. */
function kindOfType(type: unknown, around: Kind | null): Kind | null {
  if (typeof type !== "string" || PLAIN_TYPES.has(type)) return null;
  const named = kindOf(type);
  return named === "data" || named === null ? (around ?? "unbounded") : named;
}

/** Combines two kinds: of unknown length if either is. */
function either(one: Kind | null, other: Kind | null): Kind | null {
  return one === "unbounded" || other === "unbounded" ? "unbounded" : (one ?? other);
}
