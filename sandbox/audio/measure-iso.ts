/** The length of an m4a: the durations in its sample table and its fragments, divided by the track's time scale. */
type Tag = (at: number, length?: number) => string;

/** Boxes that contain the boxes needed. */
const CONTAINERS = new Set(["moov", "trak", "mdia", "minf", "stbl", "moof", "traf"]);
const HEADER_BYTES = 8;

interface Track {
  timescale: number;
  units: number;
}

export function measureIsoMedia(view: DataView, tag: Tag): number | undefined {
  const tracks: Track[] = [];
  let fragmentUnits = 0;
  const visit = (from: number, to: number, defaults: { duration: number }) => {
    for (let at = from; at + HEADER_BYTES <= to; ) {
      const size = boxSize(view, at, to);
      const type = tag(at + 4);
      const body = at + HEADER_BYTES;
      if (type === "trak") tracks.push({ timescale: 0, units: 0 });
      const track = tracks.at(-1);
      if (type === "mdhd" && track) track.timescale = view.getUint32(body + (view.getUint8(body) === 1 ? 20 : 12));
      if (type === "stts" && track) track.units = sampleTable(view, body);
      if (type === "tfhd") defaults.duration = defaultDuration(view, body);
      if (type === "trun") fragmentUnits += runUnits(view, body, defaults.duration);
      if (CONTAINERS.has(type)) visit(body, Math.min(at + size, to), defaults);
      at += size;
    }
  };
  visit(0, view.byteLength, { duration: 0 });
  const scale = tracks[0]?.timescale ?? 0;
  const tables = tracks.map(({ timescale, units }) => (timescale > 0 ? units / timescale : 0));
  return Math.max(0, ...tables, scale > 0 ? fragmentUnits / scale : 0) * 1000;
}

function boxSize(view: DataView, at: number, to: number): number {
  const size = view.getUint32(at);
  if (size === 0) return to - at;
  if (size === 1) return view.getUint32(at + 8) * 2 ** 32 + view.getUint32(at + 12);
  return Math.max(size, HEADER_BYTES);
}

/** Runs of samples of equal duration. */
function sampleTable(view: DataView, body: number): number {
  let units = 0;
  for (let entry = 0, count = view.getUint32(body + 4); entry < count; entry++) {
    units += view.getUint32(body + 8 + entry * 8) * view.getUint32(body + 12 + entry * 8);
  }
  return units;
}

function defaultDuration(view: DataView, body: number): number {
  const flags = view.getUint32(body) & 0xffffff;
  const at = body + 8 + (flags & 1 ? 8 : 0) + (flags & 2 ? 4 : 0);
  return flags & 8 ? view.getUint32(at) : 0;
}

function runUnits(view: DataView, body: number, preset: number): number {
  const flags = view.getUint32(body) & 0xffffff;
  const count = view.getUint32(body + 4);
  if (!(flags & 0x100)) return count * preset;
  const stride = 4 * [0x100, 0x200, 0x400, 0x800].filter((flag) => flags & flag).length;
  let at = body + 8 + (flags & 1 ? 4 : 0) + (flags & 4 ? 4 : 0);
  let units = 0;
  for (let sample = 0; sample < count; sample++, at += stride) units += view.getUint32(at);
  return units;
}
