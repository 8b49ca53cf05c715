/** Boxes of ISO media files (ISO/IEC 14496-12, section 4.2), read in place. */

/** Big-endian numbers at absolute positions; zero beyond the file's end. */
export interface ByteReader {
  readonly length: number;
  u8(at: number): number;
  u16(at: number): number;
  u32(at: number): number;
  u64(at: number): number;
  /** Four characters. */
  tag(at: number): string;
}

export function readerOf(bytes: Uint8Array): ByteReader {
  const u8 = (at: number) => bytes[at] ?? 0;
  const u16 = (at: number) => (u8(at) << 8) | u8(at + 1);
  const u32 = (at: number) => u16(at) * 0x10000 + u16(at + 2);
  return {
    length: bytes.length,
    u8,
    u16,
    u32,
    u64: (at) => u32(at) * 2 ** 32 + u32(at + 4),
    tag: (at) => String.fromCharCode(u8(at), u8(at + 1), u8(at + 2), u8(at + 3)),
  };
}

export interface Box {
  readonly type: string;
  readonly start: number;
  /** The offset after size and type. */
  readonly body: number;
  /** Never beyond the end of the enclosing box. */
  readonly end: number;
}

const HEADER_BYTES = 8;

/** Consecutive boxes; ends at the first position that is not a box. */
export function* boxesOf(file: ByteReader, from: number, to: number): Generator<Box, void, void> {
  for (let at = from; at + HEADER_BYTES <= to; ) {
    const short = file.u32(at);
    const isLong = short === 1;
    const headerBytes = isLong ? 2 * HEADER_BYTES : HEADER_BYTES;
    const size = short === 0 ? to - at : isLong ? file.u64(at + HEADER_BYTES) : short;
    if (size < headerBytes) return;
    yield { type: file.tag(at + 4), start: at, body: at + headerBytes, end: Math.min(at + size, to) };
    at += size;
  }
}

/** The first box of one of these types inside another. Boxes are not collected, since a file may hold millions. */
export function boxIn(file: ByteReader, outer: Box | undefined, ...types: string[]): Box | undefined {
  if (!outer) return undefined;
  for (const box of boxesOf(file, outer.body, outer.end)) {
    if (types.includes(box.type)) return box;
  }
  return undefined;
}
