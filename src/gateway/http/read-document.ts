/**
 * Reads a JSON answer far enough to know whether the client may get it.
 *
 * An answer is held whole up to `MOST_HELD_BYTES` and, since a value takes many times its bytes, up to `MAX_VALUES`;
 * above `LARGE_BYTES` only where the isolate has room for it. Such an answer is checked before anything passes, so
 * another target can replace it. Any other answer passes as it comes, without the members that a tenant must not see,
 * and its usage is read in passing. It is executed once, however long it is, and takes only the memory of what was read
 * by then.
 */
import { AnswerFilter, type MemberRules } from "../../core/formats/answer-filter.ts";
import { joinBytes } from "../../core/formats/bytes.ts";
import { MAX_VALUES } from "../../core/formats/json.ts";
import type { JsonReader } from "../../core/meters/meter.ts";
import type { Failure } from "../../core/routing/failure.ts";
import { LARGE_BYTES } from "../../core/uploads/upload-limiter.ts";
import type { Answered, Ports } from "../ports.ts";
import { AnswerPlace } from "./answer-slot.ts";
import { readChunks, type Taken } from "./upstream-body.ts";
import { parseAnswer } from "./upstream-errors.ts";

const MOST_HELD_BYTES = 4 * 1024 * 1024;

/** An answer that passes to its client in pieces. */
export interface PassingDocument {
  readonly answer: Answered;
  readonly filter: AnswerFilter;
  /** The part that was read by now, filtered: it may pass. */
  readonly head: readonly Uint8Array[];
  readonly reader: JsonReader;
  /** True where the reader has the whole answer. Else it gets what the filter saw, once the answer has ended. */
  readonly understood: boolean;
  /** Kept until the head has passed. */
  readonly place: AnswerPlace | null;
  /** The id of what the call made. */
  readonly created: string | null;
}

export type OpenedDocument =
  | { readonly kind: "document"; readonly bytes: Uint8Array<ArrayBuffer>; readonly reader: JsonReader }
  | { readonly kind: "passing"; readonly passing: PassingDocument; readonly reader: JsonReader };

export interface Wanted {
  readonly rules: MemberRules;
  readonly account: string;
  /** The answer must name the id that it makes, in the part that is read before it passes. */
  readonly creates: boolean;
  /** The flow needs a whole answer, so a longer one counts as malformed. */
  readonly whole: boolean;
  /** Silence does not end it before the time limit for the whole answer. */
  readonly patient: boolean;
}

const MALFORMED = { failure: { kind: "malformed" } } as const;

export async function readDocument(
  answer: Answered,
  reader: JsonReader,
  wanted: Wanted,
  signal: AbortSignal,
  ports: Ports,
): Promise<OpenedDocument | { failure: Failure }> {
  const head = new Head(answer, wanted, ports);
  const limits = wanted.patient ? { ...answer, idleMs: answer.totalMs, atOnce: true } : answer;
  const read = await readChunks(limits, (chunk) => head.take(chunk), signal, ports);
  const opened =
    read === "ended" || read === "enough"
      ? head.open(reader, read === "ended")
      : { failure: failureOf(read, wanted.patient) };
  if (!("failure" in opened) && opened.kind === "passing") return opened;
  head.place?.leave();
  if ("failure" in opened) await answer.response.body?.cancel().catch(() => undefined);
  return opened;
}

function failureOf(read: "lost" | "timeout" | "malformed", patient: boolean): Failure {
  if (read === "malformed") return MALFORMED.failure;
  return read === "timeout" && patient ? { kind: "answer_timeout" } : { kind: read, begun: true };
}

/** The part of an answer that was read so far. */
class Head {
  readonly #answer: Answered;
  readonly #wanted: Wanted;
  readonly #ports: Ports;
  readonly #filter: AnswerFilter;
  /** Its content-length is above the limit, so holding more than the beginning gains nothing. */
  readonly #long: boolean;
  #came: Uint8Array[] = [];
  readonly #passes: Uint8Array[] = [];
  #bytes = 0;
  place: AnswerPlace | null = null;

  constructor(answer: Answered, wanted: Wanted, ports: Ports) {
    this.#answer = answer;
    this.#wanted = wanted;
    this.#ports = ports;
    this.#filter = new AnswerFilter(wanted.rules);
    this.#long = Number(answer.response.headers.get("content-length") ?? 0) > MOST_HELD_BYTES;
  }

  take(chunk: Uint8Array): Taken {
    const passes = this.#filter.push(chunk);
    if (!passes) return "malformed";
    this.#passes.push(...passes);
    this.#came.push(chunk);
    this.#bytes += chunk.length;
    const tooMuch = this.#bytes > MOST_HELD_BYTES || this.#filter.values > MAX_VALUES;
    if (this.#wanted.whole) return tooMuch ? "malformed" : "more";
    if (tooMuch) return "enough";
    if (this.#bytes <= LARGE_BYTES) return "more";
    if (!this.#long) this.place ??= AnswerPlace.take(this.#wanted.account, MOST_HELD_BYTES, this.#ports);
    return this.place ? "more" : "enough";
  }

  open(reader: JsonReader, ended: boolean): OpenedDocument | { failure: Failure } {
    if (ended && !this.#filter.whole) return MALFORMED;
    if (!ended || this.#filter.values > MAX_VALUES) return this.#unread(reader);
    const came = joinBytes(this.#came);
    this.#came = [];
    if (!reader.read(parseAnswer(came))) return MALFORMED;
    const passes = this.#filter.changed ? joinBytes(this.#passes) : came;
    const bytes = reader.completed?.(passes) ?? passes;
    if (!this.place) return { kind: "document", bytes, reader };
    return this.#passing(reader, { head: [bytes], understood: true, created: reader.created?.() ?? null });
  }

  #unread(reader: JsonReader): OpenedDocument | { failure: Failure } {
    const { error, id } = this.#filter.members;
    if (error) return MALFORMED;
    const created = typeof id === "string" && id !== "" ? id : null;
    if (this.#wanted.creates && created === null) return MALFORMED;
    return this.#passing(reader, { head: this.#passes, understood: false, created });
  }

  #passing(
    reader: JsonReader,
    known: Pick<PassingDocument, "head" | "understood" | "created">,
  ): OpenedDocument & { kind: "passing" } {
    const passing = { answer: this.#answer, filter: this.#filter, reader, place: this.place, ...known };
    return { kind: "passing", passing, reader };
  }
}
