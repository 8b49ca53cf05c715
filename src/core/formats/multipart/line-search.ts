/**
 * Finding delimiters. An upload is megabytes long, and a hostile one is made to be searched slowly: the search skips
 * ahead like Boyer-Moore-Horspool, and reads every byte once from where skipping has stopped to pay.
 */
const CR = 0x0d;
const LF = 0x0a;
/** Comparisons allowed for each byte passed, before the search gives up on skipping. */
const MAX_WORK_PER_BYTE = 2;
/** Comparisons that are always allowed. */
const FREE_WORK = 4096;

const isLineEnd = (byte: number | undefined): boolean => byte === CR || byte === LF;

export function startsWith(bytes: Uint8Array, at: number, prefix: Uint8Array): boolean {
  for (let index = 0; index < prefix.length; index++) if (bytes[at + index] !== prefix[index]) return false;
  return true;
}

/** Where `needle` stands from `from` on; for the few bytes of a part's headers. -1: nowhere. */
export function indexOfBytes(bytes: Uint8Array, needle: Uint8Array, from: number): number {
  for (let at = from; at + needle.length <= bytes.length; at++) if (startsWith(bytes, at, needle)) return at;
  return -1;
}

/**
 * Gives a search for `needle` behind a CR or LF; the needle holds neither. It finds the needle's first byte, or -1. The
 * bytes read are at most a small multiple of those passed, whatever they are.
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

/** The same, line by line. A comparison ends at the next line end at the latest, so no byte is compared twice. */
function afterLineEnd(bytes: Uint8Array, needle: Uint8Array, from: number): number {
  const end = bytes.length - needle.length;
  for (let at = from; at <= end; at++) {
    const before = bytes[at - 1] as number;
    if ((before === LF || before === CR) && startsWith(bytes, at, needle)) return at;
  }
  return -1;
}
