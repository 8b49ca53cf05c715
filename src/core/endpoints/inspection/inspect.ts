/**
 * Checks the names and URLs in a body, in one walk (docs/design.md, sections 4, 6 and 7). It refuses listed fields,
 * unless the endpoint documents them at that place; names that are neither known nor listed but that an engine may read
 * as one that is (`fold.ts`); references to objects stored at the upstream; URLs of private networks. The caller's own
 * data is skipped.
 *
 * Linear in the body's size, whatever its names are: a path is built only for a field that is refused.
 */
import type * as z from "zod/mini";
import { MAX_FIELDS } from "../../formats/json-scanner.ts";
import { clipped } from "../../issue-words.ts";
import { type Steps, WORK_PER_ITEM, WORK_PER_NAME, Work } from "../../steps.ts";
import { FETCHED_NAMES, type Fetched, fetchedBy, fetchFault, isAddress, isMediaType } from "./engine-url.ts";
import { type FieldFault, type Found, faultAt, here, invalid, outwards, refusing, renaming } from "./field-fault.ts";
import { FoldFilter, fold } from "./fold.ts";
import { HOSTED_TOOL, hostedTool, PLACE_NAMES } from "./hosted-tool.ts";
import { fieldOf, namesIn, type Place, placeAt, placesOf } from "./places.ts";
import { asksForNothing, isProto, REFUSED, type RefusedField, refusedField, textAsksForNothing } from "./refused.ts";
import { isItemReference } from "./stored-item.ts";

/** A row's rules for fields, in addition to its schema. */
export interface FieldRules {
  /** Schemas of parts that the body's schema leaves open, by path. */
  readonly parts?: Readonly<Record<string, readonly z.core.$ZodType[]>>;
  /** Paths of further documented fields. */
  readonly known?: readonly string[];
  /** Paths of the caller's own data. */
  readonly data?: readonly string[];
  /** Fields refused on this endpoint, in addition to the common list. */
  readonly refused?: ReadonlyMap<string, RefusedField>;
  /** Values that mean the same as leaving the field out, but that the contract does not name. They are not sent. */
  readonly neutral?: Readonly<Record<string, string>>;
  /** The reason that no field may contain a URL; left out if fields may. */
  readonly noUrls?: string;
}

type Fields = Readonly<Record<string, unknown>>;

/** What is known of a name, independent of its place. */
interface Verdict {
  /** The known or listed name that an engine may take it for. */
  readonly twinOf: string | undefined;
  readonly refused: RefusedField | undefined;
  readonly fetched: Fetched;
  /** An object under this name may refer to a stored one by id. */
  readonly holdsIds: boolean;
}

/** Checked on every endpoint, documented or not. */
const TOOL_NAMES = ["tools", "type", ...PLACE_NAMES] as const;

/** Names cached per body. More names are judged each time, so that a body cannot fill the memory. */
const MOST_VERDICTS = 4_096;
/** Names, besides media fields, whose objects may refer to stored ones. Folded. */
const HOLDS_IDS: ReadonlySet<string> = new Set(["prompt", "voice"]);
const PLAIN: Verdict = { twinOf: undefined, refused: undefined, fetched: "address", holdsIds: false };
const NO_STORED = "stored objects are not available; send the content itself";

export class Inspector {
  readonly #root: Place;
  readonly #rules: FieldRules;
  /** Known and listed names by their folded form. */
  readonly #byFold = new Map<string, string>();
  readonly #listed: ReadonlySet<string>;
  readonly #filter: FoldFilter;
  /** Of the listed names, which most bodies are made of. */
  readonly #verdicts: ReadonlyMap<string, Verdict>;

  /** `taken`: fields set for each try; they count as documented even if the schema omits them. */
  constructor(schema: z.core.$ZodType, rules: FieldRules, taken: readonly string[]) {
    this.#rules = rules;
    this.#root = placesOf(schema);
    for (const name of taken) fieldOf(this.#root, name);
    for (const path of rules.known ?? []) placeAt(this.#root, path);
    for (const [path, schemas] of Object.entries(rules.parts ?? {})) {
      for (const part of schemas) placesOf(part, placeAt(this.#root, path));
    }
    for (const path of rules.data ?? []) placeAt(this.#root, path).data = true;
    this.#listed = new Set([
      ...namesIn(this.#root),
      ...TOOL_NAMES,
      ...(rules.refused?.keys() ?? []),
      ...REFUSED.keys(),
    ]);
    for (const name of this.#listed) {
      const folded = fold(name);
      if (!isProto(name) && !this.#byFold.has(folded)) this.#byFold.set(folded, name);
    }
    this.#filter = new FoldFilter([...this.#byFold.keys(), ...FETCHED_NAMES, ...HOLDS_IDS]);
    this.#verdicts = new Map([...this.#listed].map((name) => [name, this.#judge(name)]));
  }

  /** The first fault in a parsed JSON object; undefined if there is none. */
  *faultOf(body: object): Steps<FieldFault | undefined> {
    return faultAt(yield* this.#object(body as Fields, this.#root, new Walk()));
  }

  /**
   * The fault of a form field. Parts of its name are checked too (`extra[api_key]`). `text` is undefined for a file.
   */
  faultOfField(name: string, text: string | undefined): FieldFault | undefined {
    const fault = (say: (path: string) => string): FieldFault => ({ path: clipped(name), message: say(clipped(name)) });
    if (this.#root.fields.has(name)) return this.#fieldUrl(name, text, fault);
    const parts = name.split(/[[\].:]+/).filter((part) => part !== "");
    if (parts.some(isProto)) return fault(refusing(REFUSED.get("__proto__")));
    const [base = ""] = parts;
    const place = this.#root.fields.get(base);
    if (place?.data) return undefined;
    // PHP and others read `model[]`, `model[0]` and `model.x` as `model`.
    if (place) return fault(renaming(base));
    for (const part of [name, ...parts]) {
      const verdict = this.#judge(part);
      if (verdict.twinOf !== undefined) return fault(this.#twin(verdict.twinOf));
      const { refused } = verdict;
      if (refused && (text === undefined || !textAsksForNothing(refused, text))) return fault(refusing(refused));
    }
    return this.#fieldUrl(parts.at(-1) ?? "", text, fault);
  }

  #fieldUrl(
    name: string,
    text: string | undefined,
    fault: (say: (path: string) => string) => FieldFault,
  ): FieldFault | undefined {
    if (text === undefined || text === "") return undefined;
    const fetched = this.#fetchedOf(fetchedBy(fold(name)), this.#root.fields.has(name));
    const { noUrls } = this.#rules;
    const mayBeFetched = fetched === "url" || (fetched !== "text" && isAddress(text));
    if (noUrls !== undefined && mayBeFetched) return fault(refusing({ why: noUrls }));
    const wrong = fetchFault(fetched, text);
    return wrong === undefined ? undefined : fault(invalid(wrong, text));
  }

  /** The meaning of a documented field is known: it holds media only if its name says so. */
  #fetchedOf(fetched: Fetched, documented: boolean): Fetched {
    return documented && fetched === "address" ? "text" : fetched;
  }

  /** A list or an object. */
  #inside(value: object, place: Place | undefined, walk: Walk): Steps<Found | undefined> {
    return Array.isArray(value) ? this.#list(value, place?.items, walk) : this.#object(value as Fields, place, walk);
  }

  *#list(items: readonly unknown[], place: Place | undefined, walk: Walk): Steps<Found | undefined> {
    for (let index = 0; index < items.length; index++) {
      if (walk.work.add(WORK_PER_ITEM)) yield walk.work.take();
      const item = items[index];
      const found = isObject(item) ? yield* this.#inside(item, place, walk) : undefined;
      if (found) return outwards(found, index);
    }
    return undefined;
  }

  /** A generator for each list and object, none for each field: most bodies are small, and there it would cost more. */
  *#object(fields: Fields, place: Place | undefined, walk: Walk): Steps<Found | undefined> {
    if (place?.data) return yield* findProto(fields, walk.work);
    const ofMedia = typeof fields.type === "string" && isMediaType(fold(fields.type));
    const names = Object.keys(fields);
    if (place && names.length > MAX_FIELDS) return here(tooManyFields);
    for (const name of names) {
      if (walk.work.add(WORK_PER_NAME)) yield walk.work.take();
      const value = fields[name];
      const documented = place?.fields.get(name);
      const verdict = this.#known(name, walk.verdicts);
      let found = this.#name(name, value, documented, verdict);
      if (!found && !documented?.data) {
        const meant = this.#fetchedOf(verdict.fetched, documented !== undefined);
        const fetched = ofMedia && meant === "address" ? "media" : meant;
        if (!isObject(value)) found = badUrl(fetched, value);
        else if (verdict.holdsIds || Array.isArray(value)) found = yield* media(value, fetched, verdict, walk.work);
      }
      if (!found && isObject(value)) found = yield* this.#below(value, documented, walk);
      if (found) return outwards(found, name);
    }
    return undefined;
  }

  #below(value: object, documented: Place | undefined, walk: Walk): Steps<Found | undefined> {
    return documented?.data ? findProto(value, walk.work) : this.#inside(value, documented, walk);
  }

  /** What is wrong with a field of this name, whatever is inside its value. */
  #name(name: string, value: unknown, documented: Place | undefined, { twinOf, refused }: Verdict): Found | undefined {
    if (isProto(name)) return here(refusing(REFUSED.get(name)));
    if (twinOf !== undefined) return here(this.#twin(twinOf));
    if (refused && !documented && !asksForNothing(refused, value)) return here(refusing(refused));
    if (documented?.data) return undefined;
    if (name === "tools") {
      const hosted = hostedTool(value);
      if (hosted) return { steps: hosted.toReversed(), say: refusing({ why: HOSTED_TOOL }) };
    }
    if (name === "type" && !documented && isItemReference(value)) return here(refusing({ why: NO_STORED }));
    return undefined;
  }

  #twin(listed: string): (path: string) => string {
    const refused = this.#root.fields.has(listed) ? undefined : this.#refusedField(listed);
    return refused
      ? (path) => `\`${path}\` is not accepted: it may be read as \`${listed}\`: ${refused.why}.`
      : renaming(listed);
  }

  #refusedField(name: string): RefusedField | undefined {
    return this.#rules.refused?.get(name) ?? refusedField(name);
  }

  #known(name: string, verdicts: Map<string, Verdict>): Verdict {
    const known = this.#verdicts.get(name) ?? verdicts.get(name);
    if (known) return known;
    const verdict = this.#judge(name);
    if (verdicts.size < MOST_VERDICTS) verdicts.set(name, verdict);
    return verdict;
  }

  #judge(name: string): Verdict {
    const refused = this.#refusedField(name);
    if (!refused && !this.#filter.passes(name)) return PLAIN;
    const folded = fold(name);
    const fetched = fetchedBy(folded);
    const twinOf = this.#listed.has(name) ? undefined : this.#byFold.get(folded);
    return { twinOf, refused, fetched, holdsIds: fetched === "media" || HOLDS_IDS.has(folded) };
  }
}

/** One walk through a body. */
class Walk {
  readonly verdicts = new Map<string, Verdict>();
  readonly work = new Work();
}

const isObject = (value: unknown): value is object => typeof value === "object" && value !== null;

/** Stored objects and addresses in a field that may hold media. */
function* media(value: object, fetched: Fetched, { holdsIds }: Verdict, work: Work): Steps<Found | undefined> {
  const found = holdsIds ? yield* storedId(value, work) : undefined;
  if (found || fetched === "text" || !Array.isArray(value)) return found;
  return yield* badUrls(fetched, value, work);
}

/** `__proto__` is refused in the caller's own data too: JavaScript readers would treat it as more than a name. */
function* findProto(value: object, work: Work): Steps<Found | undefined> {
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++) {
      if (work.add(WORK_PER_ITEM)) yield work.take();
      const item: unknown = value[index];
      const found = isObject(item) ? yield* findProto(item, work) : undefined;
      if (found) return outwards(found, index);
    }
    return undefined;
  }
  for (const name of Object.keys(value)) {
    if (work.add(WORK_PER_NAME)) yield work.take();
    if (isProto(name)) return outwards(here(refusing(REFUSED.get(name))), name);
    const field = (value as Fields)[name];
    const found = isObject(field) ? yield* findProto(field, work) : undefined;
    if (found) return outwards(found, name);
  }
  return undefined;
}

/**
 * Finds `audio: {id}` or `prompt: {id}`: a reference to an object stored in the operator's account, shared by all
 * tenants.
 */
function* storedId(value: object, work: Work): Steps<Found | undefined> {
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++) {
      if (work.add(WORK_PER_ITEM)) yield work.take();
      const item: unknown = value[index];
      const found = isObject(item) ? yield* storedId(item, work) : undefined;
      if (found) return outwards(found, index);
    }
    return undefined;
  }
  for (const name of Object.keys(value)) {
    if (work.add(WORK_PER_NAME)) yield work.take();
    if (fold(name) !== "id" || asksForNothing({ why: "" }, (value as Fields)[name])) continue;
    return outwards(here(refusing({ why: NO_STORED })), name);
  }
  return undefined;
}

function* badUrls(fetched: Fetched, values: readonly unknown[], work: Work): Steps<Found | undefined> {
  for (let index = 0; index < values.length; index++) {
    const item = values[index];
    if (work.add(typeof item === "string" ? WORK_PER_NAME : WORK_PER_ITEM)) yield work.take();
    const found = Array.isArray(item) ? yield* badUrls(fetched, item, work) : badUrl(fetched, item);
    if (found) return outwards(found, index);
  }
  return undefined;
}

function badUrl(fetched: Fetched, value: unknown): Found | undefined {
  if (fetched === "text" || typeof value !== "string") return undefined;
  const wrong = fetchFault(fetched, value);
  return wrong === undefined ? undefined : here(invalid(wrong, value));
}

const tooManyFields = (path: string): string => `\`${path}\` has more than ${MAX_FIELDS} fields.`;
