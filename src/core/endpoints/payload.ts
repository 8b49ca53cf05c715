/**
 * The body of a call as it goes upstream. Encoded once, when the call is parsed; what only the pipeline knows (the
 * target's model, the cap that was admitted, pseudonyms) is set for each try, so that a megabyte of prompt or upload is
 * not written again for each target.
 */
import type { FormPart } from "../multipart.ts";

/** Fields set for a try; they stand in no other place of the body. */
export type SetFields = Readonly<Record<string, string | number>>;

export interface Payload {
  readonly contentType: string | null;
  /** Bytes that count as prompt: those that are sent, less the content of data URLs and of files. */
  readonly countedBytes: number;
  /** The body in pieces, in order; null where there is none. */
  encode(fields: SetFields): readonly Uint8Array<ArrayBuffer>[] | null;
}

const encoder = new TextEncoder();

/** Room for the fields set for a try, other than the model's name, in the bound of a call. */
const SET_FIELDS_BYTES = 256;

export const NO_PAYLOAD: Payload = { contentType: null, countedBytes: 0, encode: () => null };

/** `rest` without the fields that are set for each try; `skippedBytes`: UTF-8 bytes of data URLs in it, charged per part. */
export function jsonPayload(rest: Record<string, unknown>, skippedBytes: number): Payload {
  const bytes = encoder.encode(JSON.stringify(rest));
  const isEmpty = bytes.length === 2; // {}
  return {
    contentType: "application/json",
    countedBytes: bytes.length - skippedBytes + SET_FIELDS_BYTES,
    encode(fields) {
      const head = JSON.stringify(fields).slice(0, -1);
      // The brace that opened `rest` becomes the comma between the two.
      return isEmpty ? [encoder.encode(`${head}}`)] : [encoder.encode(`${head},`), bytes.subarray(1)];
    },
  };
}

/** A form whose parts pass as they came, but for the text fields that are set. */
export function formPayload(boundary: string, parts: readonly FormPart[]): Payload {
  const delimiter = encoder.encode(`--${boundary}\r\n`);
  const newline = encoder.encode("\r\n");
  const end = encoder.encode(`--${boundary}--\r\n`);
  const textBytes = parts.reduce((sum, part) => sum + (part.fileName === undefined ? part.raw.length : 0), 0);
  return {
    contentType: `multipart/form-data; boundary=${quoted(boundary)}`,
    countedBytes: textBytes + SET_FIELDS_BYTES,
    encode(fields) {
      const set = Object.entries(fields).map(([name, value]) =>
        encoder.encode(`Content-Disposition: form-data; name="${name}"\r\n\r\n${value}`),
      );
      const kept = parts.filter((part) => !Object.hasOwn(fields, part.name)).map((part) => ownBuffer(part.raw));
      return [...[...set, ...kept].flatMap((raw) => [delimiter, raw, newline]), end];
    },
  };
}

/** Bytes that pass verbatim. */
export function verbatimPayload(contentType: string | null, bytes: Uint8Array): Payload {
  return { contentType, countedBytes: bytes.length, encode: () => [ownBuffer(bytes)] };
}

/** Request bodies are read into memory of their own, never into shared memory. */
const ownBuffer = (bytes: Uint8Array): Uint8Array<ArrayBuffer> => bytes as Uint8Array<ArrayBuffer>;

const quoted = (boundary: string): string => (/^[\w-]+$/.test(boundary) ? boundary : `"${boundary}"`);

/** All pieces as one. */
export function joinPieces(pieces: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}
