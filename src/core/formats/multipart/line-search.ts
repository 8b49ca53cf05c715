/**
 * Finds delimiters. An upload has megabytes, and a hostile one is built to make the search slow. The search skips ahead
 * like Boyer-Moore-Horspool, and reads every byte once from the point where skipping no longer pays.
 */
const CR = 0x0d;
const LF = 0x0a;
/** Comparisons allowed per byte passed before the search stops skipping. */
const MAX_WORK_PER_BYTE = 2;
/** Comparisons that are always allowed. */
const FREE_WORK = 4096;

const isLineEnd = (byte: number | undefined): boolean => byte === CR || byte === LF;

export function startsWith(bytes: Uint8Array, at: number, prefix: Uint8Array): boolean {
  for (let index = 0; index < prefix.length; index++) if (bytes[at + index] !== prefix[index]) return false;
  return true;
}

/** The index of `needle` at or after `from`, or -1. For the few bytes of a part's headers. */
export function indexOfBytes(bytes: Uint8Array, needle: Uint8Array, from: number): number {
  for (let at = from; at + needle.length <= bytes.length; at++) if (startsWith(bytes, at, needle)) return at;
  return -1;
}

/**
 * Returns a search for `needle` directly after a CR or LF. It gives the index of the needle's first byte, or -1. The
 * needle contains neither CR nor LF. The search reads at most a small multiple of the bytes passed, whatever they are.
 */
export function lineFinder(needle: Uint8Array): (bytes: Uint8Array, from: number) => number {
  const last = needle.length - 1;
  const skip = new Uint32Array(256).fill(needle.length);
  for (let index = 0; index < last; index++) skip[needle[index] as number] = last - index;
  const lastByte = needle[last];
  return (bytes, from) => {
    let work = -FREE_WORK;
    for (let at = from; at + last < bytes.length; ) {
      const tail = bytes[at + last] as number;
      if (tail === lastByte) {
        let index = last - 1;
        while (index >= 0 && bytes[at + index] === needle[index]) index--;
        if (index < 0 && isLineEnd(bytes[at - 1])) return at;
        work += last - index;
        if (work > MAX_WORK_PER_BYTE * (at - from)) return afterLineEnd(bytes, needle, at);
      }
      at += skip[tail] as number;
    }
    return -1;
  };
}

/** The same, line by line. A comparison ends at the next line end, so no byte is compared twice. */
function afterLineEnd(bytes: Uint8Array, needle: Uint8Array, from: number): number {
  const end = bytes.length - needle.length;
  for (let at = from; at <= end; at++) {
    const before = bytes[at - 1] as number;
    if ((before === LF || before === CR) && startsWith(bytes, at, needle)) return at;
  }
  return -1;
}
