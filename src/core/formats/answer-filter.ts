/**
 * Filters a JSON answer while it passes. It removes top-level members that tenants may not see, rewrites the usage
 * inside others, and remembers a little of the rest: the few small members that are asked for, and the type of the
 * others.
 *
 * The bytes that pass are the upstream's own; if nothing is removed, all of them. Memory: one small member at a time.
 */
import { joinBytes } from "./bytes.ts";
import { JsonScan, OPEN_ARRAY, OPEN_OBJECT, type TopLevel } from "./json-scan.ts";

/** What to do with a member. `rewrite` returns the bytes to send for its value, or null to drop the member. */
export type MemberRule = "pass" | "drop" | Rewrite | Inside;
/** Passes but for the objects and arrays named `usage` inside it: each is rewritten, or null takes its place. */
export interface Inside {
  readonly inside: Rewrite;
}
export interface Rewrite {
  /** A longer value is removed. */
  readonly maxBytes: number;
  rewrite(raw: Uint8Array): Uint8Array | null;
}
/** The rule for a member's name; null is a name too long to be known. */
export type MemberRules = (name: string | null) => MemberRule;

/** What is known about an answer that was not held. */
export interface Skimmed {
  /**
   * Its completed top-level members. Members with a rewrite rule have their original value; others only show their
   * type: an array of the same length (up to `MOST_PLACES`), an empty object, or an empty string.
   */
  readonly members: Readonly<Record<string, unknown>>;
  /** Bytes of the strings inside a member, so far. */
  textBytes(member: string): number;
}

/** The most bytes between two members: a comma, spaces and a name. */
const LONGEST_GAP = 64 * 1024;
/** Longer arrays are remembered with this length. */
const MOST_PLACES = 1_000;

/** More usages than this inside members are an attack: each costs far more time than its bytes. */
const MOST_INSIDE = 10_000;
/** The name that is looked for inside members. */
const USAGE = "usage";

/** What happens to the bytes being read. `gap`: held back until the next member's name is known. */
type Mode = "pass" | "drop" | "gap" | "keep";

const decoder = new TextDecoder();

export class AnswerFilter implements TopLevel, Skimmed {
  readonly #rules: MemberRules;
  readonly #scan = new JsonScan(this, USAGE);
  readonly members: Record<string, unknown> = Object.create(null);
  readonly #textBytes = new Map<string, number>();
  #chunk: Uint8Array = new Uint8Array();
  /** Where the unprocessed part of the chunk begins. */
  #from = 0;
  #mode: Mode = "pass";
  #out: Uint8Array[] = [];
  readonly #gap = new Kept(LONGEST_GAP);
  #value = new Kept(0);
  #rule: MemberRule = "pass";
  #name: string | null = null;
  #first = 0;
  #anyPassed = false;
  #insides = 0;
  #overlong = false;
  /** Something was removed or rewritten. */
  changed = false;

  constructor(rules: MemberRules) {
    this.#rules = rules;
  }

  /** The bytes that pass now, of this chunk and of those kept back; null once this is no JSON object. */
  push(chunk: Uint8Array): Uint8Array[] | null {
    this.#chunk = chunk;
    this.#from = 0;
    this.#out = [];
    const sound = this.#scan.push(chunk);
    this.#take(chunk.length);
    if (this.#name !== null) this.#textBytes.set(this.#name, this.#scan.textBytes);
    return sound && !this.#overlong ? this.#out : null;
  }

  /** True once the document is complete. */
  get whole(): boolean {
    return this.#scan.done;
  }

  /** Values in the document so far, of any type and depth. */
  get values(): number {
    return this.#scan.values;
  }

  textBytes(member: string): number {
    return this.#textBytes.get(member) ?? 0;
  }

  open(at: number): void {
    this.#take(at + 1);
    this.#mode = "gap";
  }

  name(name: string | null, at: number): void {
    this.#take(at);
    this.#name = name;
    this.#rule = this.#rules(name);
    if (this.#rule === "pass" || isInside(this.#rule)) this.#passGap();
    else if (this.#rule === "drop") this.#drop();
  }

  begin(first: number, at: number): void {
    this.#first = first;
    if (typeof this.#rule === "string" || isInside(this.#rule)) return;
    this.#take(at);
    this.#value = new Kept(this.#rule.maxBytes);
    this.#mode = "keep";
  }

  end(at: number): void {
    this.#take(at);
    if (typeof this.#rule !== "string" && !isInside(this.#rule)) this.#passRewritten(this.#rule);
    else if (this.#name !== null) this.members[this.#name] = this.#kindOf();
    if (this.#name !== null) this.#textBytes.set(this.#name, this.#scan.textBytes);
    this.#name = null;
    this.#mode = "gap";
  }

  beginInside(at: number): void {
    if (!isInside(this.#rule)) return;
    if (++this.#insides > MOST_INSIDE) this.#overlong = true;
    this.#take(at);
    this.#value = new Kept(this.#overlong ? 0 : this.#rule.inside.maxBytes);
    this.#mode = "keep";
  }

  endInside(at: number): void {
    if (!isInside(this.#rule)) return;
    this.#take(at);
    const { overlong } = this.#value;
    const raw = joinBytes(this.#value.takeAll());
    const rewritten = overlong ? null : this.#rule.inside.rewrite(raw);
    if (rewritten !== raw) this.changed = true;
    this.#out.push(rewritten ?? NULL);
    this.#mode = "pass";
  }

  close(at: number): void {
    this.#take(at + 1);
    this.#out.push(...this.#gap.takeAll());
    this.#mode = "pass";
  }

  /** Handles the bytes before `at` as the mode says. */
  #take(at: number): void {
    if (at === this.#from) return;
    const piece = this.#chunk.subarray(this.#from, at);
    this.#from = at;
    if (this.#mode === "pass") this.#out.push(piece);
    else if (this.#mode === "keep") this.#value.add(piece);
    else if (this.#mode === "gap" && !this.#gap.add(piece)) this.#overlong = true;
  }

  /** Passes the bytes between two members. If all earlier members were dropped, the comma is dropped too. */
  #passGap(): void {
    const gap = this.#gap.takeAll();
    this.#out.push(...(this.#anyPassed ? gap : withoutComma(gap)));
    this.#anyPassed = true;
    this.#mode = "pass";
  }

  #drop(): void {
    this.#gap.takeAll();
    this.changed = true;
    this.#mode = "drop";
  }

  #passRewritten(rule: Rewrite): void {
    const { overlong } = this.#value;
    const raw = joinBytes(this.#value.takeAll());
    if (this.#name !== null) this.members[this.#name] = overlong ? this.#kindOf() : parse(raw);
    const rewritten = overlong ? null : rule.rewrite(raw);
    if (rewritten !== raw) this.changed = true;
    if (rewritten === null) {
      this.#drop();
    } else {
      this.#passGap();
      this.#out.push(rewritten);
    }
  }

  #kindOf(): unknown {
    if (this.#first === OPEN_ARRAY) return Array.from({ length: Math.min(this.#scan.elements, MOST_PLACES) });
    if (this.#first === OPEN_OBJECT) return {};
    return this.#first === 0x22 ? "" : undefined;
  }
}

const isInside = (rule: MemberRule): rule is Inside => typeof rule === "object" && "inside" in rule;
const NULL = new TextEncoder().encode("null");

/** A buffer for held bytes, with a limit. */
class Kept {
  readonly #maxBytes: number;
  #pieces: Uint8Array[] = [];
  #bytes = 0;
  overlong = false;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** False if the limit is exceeded; then the buffer is emptied. */
  add(piece: Uint8Array): boolean {
    this.#bytes += piece.length;
    if (this.#bytes > this.#maxBytes) {
      this.overlong = true;
      this.#pieces = [];
      return false;
    }
    // Copied, because the chunk's buffer may be reused.
    this.#pieces.push(piece.slice());
    return true;
  }

  takeAll(): Uint8Array[] {
    const pieces = this.#pieces;
    this.#pieces = [];
    this.#bytes = 0;
    return pieces;
  }
}

/** The gap without its comma, which is its first byte that is not a space. */
function withoutComma(gap: readonly Uint8Array[]): Uint8Array[] {
  const whole = joinBytes(gap);
  const comma = whole.indexOf(0x2c);
  const quote = whole.indexOf(0x22);
  return comma === -1 || comma > quote ? [whole] : [whole.subarray(0, comma), whole.subarray(comma + 1)];
}

const parse = (raw: Uint8Array): unknown => JSON.parse(decoder.decode(raw));
