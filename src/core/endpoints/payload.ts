/**
 * The body of a call as sent upstream. It is encoded once, when the call is parsed. What only the pipeline knows (the
 * target's model, the admitted cap, pseudonyms) is set for each try, so that a megabyte of prompt or upload is not
 * encoded again for each target.
 */

import { encodeInSteps } from "../formats/encode-json.ts";
import {
  type FormBoundary,
  formType,
  headersOf,
  type PlainName,
  type PlainPart,
  writeForm,
} from "../formats/multipart/form-writer.ts";
import type { Steps } from "../steps.ts";
import { Kept } from "./kept.ts";

/** Fields set for a try. They occur nowhere else in the body. */
export type SetFields = Readonly<Record<string, string | number>>;

export interface Payload {
  readonly contentType: string | null;
  /** Bytes that count as prompt: the bytes sent, without the content of data URLs and files. */
  readonly countedBytes: number;
  /** The same without room for the fields set for a try; own count uses it as the prompt's size. */
  readonly ownBytes: number;
  /** The body in pieces, in order; null if there is none. */
  encode(fields: SetFields): readonly Uint8Array<ArrayBuffer>[] | null;
  /** Gives back the memory of the body. Nothing can be encoded afterwards. */
  drop(): void;
}

const encoder = new TextEncoder();

/** Bytes that a call's bound allows for the fields set for a try, except the model's name. */
const SET_FIELDS_BYTES = 256;

export const NO_PAYLOAD: Payload = {
  contentType: null,
  countedBytes: 0,
  ownBytes: 0,
  encode: () => null,
  drop: () => undefined,
};

/**
 * `rest`: the body without the fields set for each try. `set`: the fields of it that the gateway added. `skippedBytes`:
 * UTF-8 bytes of its data URLs, charged per part.
 */
export function* jsonPayload(
  rest: Record<string, unknown>,
  set: Record<string, unknown>,
  skippedBytes: number,
): Steps<Payload> {
  const pieces = yield* encodeInSteps(rest);
  const kept = new Kept(pieces);
  const bytes = pieces.reduce((sum, piece) => sum + piece.length, 0);
  // A comma joins `set` to the rest; the braces are counted once.
  const setBytes = Object.keys(set).length === 0 ? 0 : encoder.encode(JSON.stringify(set)).length - 1;
  const isEmpty = bytes === 2; // {}
  return {
    contentType: "application/json",
    countedBytes: bytes - skippedBytes + SET_FIELDS_BYTES,
    ownBytes: Math.max(0, bytes - skippedBytes - setBytes),
    encode(fields) {
      const [first = new Uint8Array(), ...others] = kept.get();
      const head = JSON.stringify(fields).slice(0, -1);
      // The opening brace of `rest` is replaced by the comma between the two.
      return isEmpty ? [encoder.encode(`${head}}`)] : [encoder.encode(`${head},`), first.subarray(1), ...others];
    },
    drop() {
      // Detached, the memory is free at once; a runtime that counts only its own heap would collect it late.
      for (const { buffer } of kept.drop() ?? []) if (!buffer.detached) buffer.transfer(0);
    },
  };
}

/** A form, rewritten: first the fields set for a try, then the other parts. */
export function formPayload(boundary: FormBoundary, parts: readonly PlainPart[]): Payload {
  const kept = new Kept(parts);
  const textBytes = parts.reduce((sum, part) => sum + (part.fileName === undefined ? textPartBytes(part) : 0), 0);
  return {
    contentType: formType(boundary),
    countedBytes: textBytes + SET_FIELDS_BYTES,
    ownBytes: textBytes,
    encode(fields) {
      const set = Object.entries(fields).map(([name, value]) => setPart(name, String(value)));
      const others = kept.get().filter((part) => !Object.hasOwn(fields, part.name));
      return writeForm(boundary, [...set, ...others]);
    },
    drop: () => void kept.drop(),
  };
}

const textPartBytes = (part: PlainPart): number => headersOf(part).length + part.content.length;

/** The names of these fields come from the endpoint table, so they are plain. */
const setPart = (name: string, value: string): PlainPart => ({
  name: name as PlainName,
  fileName: undefined,
  contentType: undefined,
  content: encoder.encode(value),
});

/** Bytes that are sent unchanged. */
export function verbatimPayload(contentType: string | null, bytes: Uint8Array): Payload {
  const kept = new Kept(bytes);
  return {
    contentType,
    countedBytes: bytes.length,
    ownBytes: bytes.length,
    encode: () => [ownBuffer(kept.get())],
    drop: () => void kept.drop(),
  };
}

/** Request bodies are never in shared memory, so the cast is safe. */
const ownBuffer = (bytes: Uint8Array): Uint8Array<ArrayBuffer> => bytes as Uint8Array<ArrayBuffer>;
