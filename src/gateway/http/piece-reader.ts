/**
 * Reads a long body in pieces that share one buffer: use up each piece before asking for the next. Fresh memory for
 * each read would add up to the whole body, since the runtime counts only its own heap and frees the rest late.
 */
const PIECE_BYTES = 64 * 1024;

type Read = { readonly done: boolean; readonly value?: Uint8Array | undefined };
export interface PieceReader {
  read(): Promise<Read>;
  cancel(): Promise<void>;
  releaseLock(): void;
}

/** A body that is no byte stream is read in its own chunks. */
export function pieceReader(body: ReadableStream<Uint8Array>): PieceReader {
  const reader = byobReader(body);
  if (!reader) return body.getReader();
  let piece = new Uint8Array(PIECE_BYTES);
  return {
    async read() {
      const { done, value } = await reader.read(piece);
      // The runtime detaches the buffer that we pass and returns its memory as a new one.
      if (value) piece = new Uint8Array(value.buffer);
      return { done, value };
    },
    cancel: () => reader.cancel(),
    releaseLock: () => reader.releaseLock(),
  };
}

/** Null: the body is no byte stream. */
export function byobReader(body: ReadableStream<Uint8Array>): ReadableStreamBYOBReader | null {
  try {
    return body.getReader({ mode: "byob" });
  } catch {
    return null;
  }
}
