/**
 * The body of a call as it goes upstream. Encoded once, when the call is parsed; what only the pipeline knows (the
 * target's model, the cap that was admitted, pseudonyms) is set in front, so that a megabyte of prompt is not written
 * again for each target.
 */
const encoder = new TextEncoder();

export interface JsonPayload {
  readonly contentType: "application/json";
  /** A JSON object without the fields that are set per try, as bytes. */
  readonly rest: Uint8Array<ArrayBuffer>;
  /** Bytes that count as prompt: those of `rest` less the content of data URLs. */
  readonly countedBytes: number;
}

/** Room for the fields set per try, other than the model's name, in the bound of a call. */
const SET_FIELDS_BYTES = 256;

/** `skippedBytes`: UTF-8 bytes of data URLs in `rest`, which are charged per part. */
export function jsonPayload(rest: Record<string, unknown>, skippedBytes: number): JsonPayload {
  const bytes = encoder.encode(JSON.stringify(rest));
  return { contentType: "application/json", rest: bytes, countedBytes: bytes.length - skippedBytes + SET_FIELDS_BYTES };
}

/** The body with `fields` set; they must not stand in `rest`. */
export function encodePayload(
  payload: JsonPayload,
  fields: Readonly<Record<string, string | number>>,
): Uint8Array<ArrayBuffer> {
  const head = encoder.encode(JSON.stringify(fields).slice(0, -1));
  const isEmpty = payload.rest.length === 2; // {}
  const body = new Uint8Array(head.length + payload.rest.length);
  body.set(head);
  body.set(payload.rest, head.length);
  // The brace that opened `rest` becomes the comma between the two; an empty one has nothing to part.
  if (isEmpty) return concatTail(head);
  body[head.length] = 0x2c;
  return body;
}

function concatTail(head: Uint8Array): Uint8Array<ArrayBuffer> {
  const body = new Uint8Array(head.length + 1);
  body.set(head);
  body[head.length] = 0x7d;
  return body;
}
