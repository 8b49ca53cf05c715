/**
 * Reads a long body in pieces that lie in one buffer: each is used up before the next is asked for. Reads that each take
 * memory of their own would cost as much as the whole body, since the runtime counts only its own heap and is in no hurry
 * to give the rest back.
 */
const PIECE_BYTES = 64 * 1024;

type Read = { readonly done: boolean; readonly value?: Uint8Array | undefined };
export interface PieceReader {
  read(): Promise<Read>;
  cancel(): Promise<void>;
  releaseLock(): void;
}

/** A body that cannot be read so (it is no stream of bytes) is read as it comes. */
export function pieceReader(body: ReadableStream<Uint8Array>): PieceReader {
  const reader = byobReader(body);
  if (!reader) return body.getReader();
  let piece = new Uint8Array(PIECE_BYTES);
  return {
    async read() {
      const { done, value } = await reader.read(piece);
      // What was given is detached; its memory comes back under a new name.
      if (value) piece = new Uint8Array(value.buffer);
      return { done, value };
    },
    cancel: () => reader.cancel(),
    releaseLock: () => reader.releaseLock(),
  };
}

function byobReader(body: ReadableStream<Uint8Array>): ReadableStreamBYOBReader | null {
  try {
    return body.getReader({ mode: "byob" });
  } catch {
    return null;
  }
}
