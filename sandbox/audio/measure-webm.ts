/** The length of a webm: the start of its last block plus the length of the block before it. */

const SEGMENT = 0x18538067;
const INFO = 0x1549a966;
const TIMESTAMP_SCALE = 0x2ad7b1;
const CLUSTER = 0x1f43b675;
const TIMESTAMP = 0xe7;
const SIMPLE_BLOCK = 0xa3;
const BLOCK_GROUP = 0xa0;
const BLOCK = 0xa1;
const CONTAINERS = new Set([SEGMENT, INFO, CLUSTER, BLOCK_GROUP]);

export function measureWebm(view: DataView): number | undefined {
  let scaleNs = 1_000_000;
  let cluster = 0;
  const starts: number[] = [];
  const visit = (from: number, to: number) => {
    for (let at = from; at + 2 <= to; ) {
      const id = vint(view, at, true);
      const size = vint(view, at + id.bytes, false);
      const body = at + id.bytes + size.bytes;
      const end = size.unknown ? to : Math.min(body + size.value, to);
      if (id.value === TIMESTAMP_SCALE) scaleNs = unsigned(view, body, end);
      if (id.value === TIMESTAMP) cluster = unsigned(view, body, end);
      if (id.value === SIMPLE_BLOCK || id.value === BLOCK) {
        starts.push(cluster + view.getInt16(body + vint(view, body, false).bytes));
      }
      // A cluster of unknown size ends where the next one begins, so it can be read as a list of siblings.
      if (CONTAINERS.has(id.value)) {
        if (size.unknown) {
          at = body;
          continue;
        }
        visit(body, end);
      }
      at = end;
    }
  };
  visit(0, view.byteLength);
  const sorted = starts.sort((a, b) => a - b);
  const last = sorted.at(-1);
  if (last === undefined) return undefined;
  return ((last + (last - (sorted.at(-2) ?? 0))) * scaleNs) / 1_000_000;
}

/** A number of variable length; an id keeps its length marker. */
function vint(view: DataView, at: number, keepMarker: boolean): { value: number; bytes: number; unknown: boolean } {
  const first = view.getUint8(at);
  const bytes = Math.clz32(first) - 23;
  if (bytes > 8) throw new RangeError("not a number of variable length");
  let value = keepMarker ? first : first & (0xff >> bytes);
  let ones = (first & (0xff >> bytes)) === 0xff >> bytes;
  for (let index = 1; index < bytes; index++) {
    const byte = view.getUint8(at + index);
    ones &&= byte === 0xff;
    value = value * 256 + byte;
  }
  return { value, bytes, unknown: ones && !keepMarker };
}

function unsigned(view: DataView, from: number, to: number): number {
  let value = 0;
  for (let at = from; at < to; at++) value = value * 256 + view.getUint8(at);
  return value;
}
