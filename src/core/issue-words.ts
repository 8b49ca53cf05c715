/**
 * Describes an invalid value to the client in a sentence: the field, what it must be, what it was.
 *
 * The validator's own messages are never shown, only messages written for a schema by hand, or else a description of
 * what the schema accepts. Of the wrong value, the type and size are shown. The value itself is shown only where no
 * text is expected, and only as a short word of letters and digits, so that no prompt or key appears in an error.
 */
import * as z from "zod/mini";
import { charactersOf } from "./meters/audio.ts";
import { fieldNames, schemaAt, showsValues, typeWords } from "./schema-words.ts";

type Path = readonly PropertyKey[];

/** The first problem found. */
interface Fault {
  /** The field to blame. */
  readonly path: Path;
  /** Begins with a verb: "must be a number from 0 to 2". */
  readonly must: string;
  /** The path of the wrong value: `path` or below it. */
  readonly culprit: Path;
  /** True if the value has the right type and failed one of our own checks. */
  readonly sameShape: boolean;
}

type Judged<Value> = { ok: true; data: Value } | { ok: false; fault: Fault };

/** How an API writes paths in errors. */
interface Spelling {
  /** Name of the whole value: "The request body". */
  readonly whole: string;
  pathOf(path: Path): string;
}

interface Complaint {
  /** The field's path; null for the whole value. */
  readonly param: string | null;
  readonly message: string;
}

/** The placeholder message of a schema without one of its own. */
const NO_WORDS = "";

/** Validates a value and describes the first fault. */
export function judge<Value>(schema: z.core.$ZodType<Value>, value: unknown): Judged<Value> {
  const outcome = z.safeParse(schema, value, { error: () => NO_WORDS });
  if (outcome.success) return { ok: true, data: outcome.data };
  const issue = outcome.error.issues[0] as z.core.$ZodIssue;
  const { must, path = issue.path } = faultOf(schema, issue);
  const culprit = [...issue.path, ...deepest(issue)];
  return { ok: false, fault: { path, must, culprit, sameShape: issue.code === "custom" } };
}

/** The same, with the fault as a complete sentence. */
export function validate<Value>(
  schema: z.core.$ZodType<Value>,
  value: unknown,
  spelling: Spelling,
): { ok: true; data: Value } | { ok: false; complaint: Complaint } {
  const judged = judge(schema, value);
  return judged.ok ? judged : { ok: false, complaint: complaintOf(schema, value, judged.fault, spelling) };
}

function complaintOf(
  schema: z.core.$ZodType,
  value: unknown,
  { path, must, culprit }: Fault,
  spelling: Spelling,
): Complaint {
  const param = spelling.pathOf(path) || null;
  const subject = param === null ? spelling.whole : `\`${param}\``;
  const wrong = valueAt(value, culprit);
  if (wrong === undefined && culprit.length === path.length && /^must be /.test(must)) {
    return { param, message: `${subject} is required: ${must.slice("must be ".length)}.` };
  }
  if (wrong === undefined || !/^(must|is required)\b/.test(must))
    return { param, message: ended(`${subject} ${must}`) };
  const at = schemaAt(schema, culprit);
  const who = culprit.length === path.length ? "it" : `\`${spelling.pathOf(culprit)}\``;
  return { param, message: `${subject} ${must}; ${who} was ${formOf(wrong, at !== undefined && showsValues(at))}.` };
}

const ended = (text: string): string => (text.endsWith("?") ? text : `${text}.`);

function faultOf(schema: z.core.$ZodType, issue: z.core.$ZodIssue): { must: string; path?: Path } {
  if (issue.message !== NO_WORDS) return { must: issue.message };
  switch (issue.code) {
    case "unrecognized_keys":
      return unknownFields(schemaAt(schema, issue.path), issue);
    case "invalid_key": {
      const words = issue.issues[0]?.message || "must be another name";
      return { must: `is not a name that can stand here: it ${words}` };
    }
    case "too_big":
    case "too_small": {
      const bound = issue.code === "too_big" ? issue.maximum : issue.minimum;
      if (Math.abs(Number(bound)) < Number.MAX_SAFE_INTEGER) break;
      return { must: `must be a whole number from ${Number.MIN_SAFE_INTEGER} to ${Number.MAX_SAFE_INTEGER}` };
    }
  }
  const at = schemaAt(schema, issue.path);
  return { must: at ? `must be ${typeWords(at)}` : "is not of the right form" };
}

/** If a value matches no member of a union: the path, below it, of the field that came closest. */
function deepest(issue: z.core.$ZodIssue): Path {
  if (issue.code !== "invalid_union") return [];
  return issue.errors.reduce<Path>((longest, [first]) => {
    if (!first) return longest;
    const path = [...first.path, ...deepest(first)];
    return path.length > longest.length || isFurther(path, longest) ? path : longest;
  }, []);
}

/** Of two items of a list, the later one: more of the list was right. */
function isFurther(path: Path, other: Path): boolean {
  const at = path.findIndex((step, index) => step !== other[index]);
  return path.length === other.length && Number(path[at]) > Number(other[at]);
}

const MOST_NAMED = 12;
const MOST_MEANT = 3;

function unknownFields(
  schema: z.core.$ZodType | undefined,
  { path, keys: [first = "", ...others] }: { readonly path: Path; readonly keys: readonly string[] },
): { must: string; path: Path } {
  const names = fieldNames(schema);
  const meant = closest(first, names);
  const more = others.slice(0, MOST_NAMED).map((name) => `\`${clipped(name)}\``);
  const also = more.length > 0 ? `, nor ${more.length === 1 ? "is" : "are"} ${more.join(", ")}` : "";
  const quoted = (list: readonly string[], joint: string) => list.map((name) => `\`${name}\``).join(joint);
  const hint =
    meant.length > 0
      ? `. Did you mean ${quoted(meant, " or ")}?`
      : names.length > 0 && names.length <= MOST_NAMED
        ? `. Known are ${quoted(names, ", ")}`
        : "";
  return { must: `is not a field of this call${also}${hint}`, path: [...path, first] };
}

/** Suggestions for an unknown name: the closest known names, if any are close. */
function closest(written: string, names: readonly string[]): readonly string[] {
  const ranked = names.map((name) => ({
    name,
    distance: distance(clipped(written).toLowerCase(), name.toLowerCase()),
  }));
  const least = Math.min(FAR, ...ranked.map((one) => one.distance));
  if (least === FAR) return [];
  return ranked.flatMap((one) => (one.distance === least ? [one.name] : [])).slice(0, MOST_MEANT);
}

const FAR = 3;
function distance(one: string, other: string): number {
  if (one.length >= 3 && (other.includes(one) || one.includes(other))) return 1;
  const away = edits(one, other);
  return away <= (other.length < 5 ? 1 : 2) ? away : FAR;
}

/** Edit distance: the least number of letters to add, drop or change. */
export function edits(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, index) => index);
  for (const [at, letter] of [...one].entries()) {
    const next = [at + 1];
    for (let index = 1; index <= other.length; index++) {
      const changed = (row[index - 1] as number) + (other[index - 1] === letter ? 0 : 1);
      next.push(Math.min(changed, (row[index] as number) + 1, (next[index - 1] as number) + 1));
    }
    row = next;
  }
  return row[other.length] as number;
}

/** A value that may be quoted. No sentence has this form. */
const SHORT_WORD = /^[A-Za-z0-9_.:-]{1,32}$/;

/** Describes a value in an error. `shown`: a short word may be quoted. */
export function formOf(value: unknown, shown = false): string {
  if (value === undefined) return "missing";
  if (value === null || typeof value === "number" || typeof value === "boolean") return String(value);
  if (typeof value === "string") {
    if (shown && SHORT_WORD.test(value)) return `"${value}"`;
    return value === "" ? "an empty string" : `a string of ${counted(charactersOf(value), "character")}`;
  }
  if (Array.isArray(value))
    return value.length === 0 ? "an empty array" : `an array of ${counted(value.length, "item")}`;
  const bytes = (value as { bytes?: unknown }).bytes;
  if (bytes instanceof Uint8Array) return bytes.length === 0 ? "an empty file" : "a file";
  return "an object";
}

const counted = (count: number, what: string): string => `${count} ${what}${count === 1 ? "" : "s"}`;

function valueAt(value: unknown, path: Path): unknown {
  return path.reduce<unknown>(
    (at, step) => (typeof at === "object" && at !== null && Object.hasOwn(at, step) ? (at as never)[step] : undefined),
    value,
  );
}

/** Field names may be the caller's own, so they are cut to this length. */
const LONGEST_STEP = 64;
export const clipped = (name: string): string =>
  name.length > LONGEST_STEP ? `${name.slice(0, LONGEST_STEP)}...` : name;

/** OpenAI's notation: `messages[0].content`. */
export const bracketed = (path: Path): string =>
  path.reduce<string>((text, step) => {
    if (typeof step === "number") return `${text}[${step}]`;
    const name = clipped(String(step));
    return text ? `${text}.${name}` : name;
  }, "");

/** Dotted notation: `targets.0.upstream`. */
export const dotted = (path: Path): string => path.map((step) => clipped(String(step))).join(".");
