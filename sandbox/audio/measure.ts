/**
 * How long an uploaded file really is, from its frames, packets, sample tables or bytes. A length claimed in a header
 * is never trusted. The format is recognised by the first bytes, not by the file's name.
 */
import { measureFlac } from "./measure-flac.ts";
import { measureIsoMedia } from "./measure-iso.ts";
import { measureMp3 } from "./measure-mp3.ts";
import { measureWebm } from "./measure-webm.ts";

/** Milliseconds; undefined if the format is not supported or the file is broken. */
export function measureMs(bytes: Uint8Array): number | undefined {
  try {
    const ms = measure(bytes);
    return ms !== undefined && Number.isFinite(ms) && ms > 0 ? Math.round(ms) : undefined;
  } catch (error) {
    // Read past the end of a broken file.
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

function measure(bytes: Uint8Array): number | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const tag = (at: number, length = 4) => String.fromCharCode(...bytes.subarray(at, at + length));
  if (tag(0) === "RIFF" && tag(8) === "WAVE") return measureWav(view, tag);
  if (tag(0) === "OggS") return measureOgg(view, tag);
  if (tag(0) === "fLaC") return measureFlac(view);
  if (tag(4) === "ftyp") return measureIsoMedia(view, tag);
  if (bytes.length > 4 && view.getUint32(0) === 0x1a45dfa3) return measureWebm(view);
  if (tag(0, 3) === "ID3" || (bytes[0] === 0xff && ((bytes[1] ?? 0) & 0xe0) === 0xe0)) return measureMp3(view, tag);
  return undefined;
}

type Tag = (at: number, length?: number) => string;

/** The bytes that are present, divided by the format's byte rate. */
function measureWav(view: DataView, tag: Tag): number | undefined {
  let bytesPerSecond = 0;
  for (let at = 12; at + 8 <= view.byteLength; ) {
    const size = view.getUint32(at + 4, true);
    if (tag(at) === "fmt ") bytesPerSecond = view.getUint32(at + 12, true) * view.getUint16(at + 20, true);
    if (tag(at) === "data") {
      return bytesPerSecond > 0 ? ((view.byteLength - at - 8) / bytesPerSecond) * 1000 : undefined;
    }
    at += 8 + size + (size % 2);
  }
  return undefined;
}

/** Opus: the sum of its packets' lengths. Vorbis: the last granule position divided by the sample rate. */
function measureOgg(view: DataView, tag: Tag): number | undefined {
  const opus = tag(28, 8) === "OpusHead";
  const rate = opus ? 48_000 : view.getUint32(40, true);
  let packetsMs = 0;
  let granule = 0;
  let pages = 0;
  for (let at = 0; at + 27 <= view.byteLength && tag(at) === "OggS"; pages++) {
    const segments = view.getUint8(at + 26);
    granule = Math.max(granule, view.getUint32(at + 6, true) + view.getInt32(at + 10, true) * 2 ** 32);
    let body = at + 27 + segments;
    let starts = true;
    for (let segment = 0; segment < segments; segment++) {
      const size = view.getUint8(at + 27 + segment);
      if (opus && pages >= 2 && starts && size > 0 && body < view.byteLength) packetsMs += opusPacketMs(view, body);
      starts = size < 255;
      body += size;
    }
    at = body;
  }
  return opus ? packetsMs : (granule / rate) * 1000;
}

/** From the first bytes of an Opus packet (RFC 6716, section 3). */
function opusPacketMs(view: DataView, at: number): number {
  const toc = view.getUint8(at);
  const config = toc >> 3;
  const frameMs =
    config < 12
      ? ([10, 20, 40, 60][config % 4] ?? 0)
      : config < 16
        ? ([10, 20][config % 2] ?? 0)
        : ([2.5, 5, 10, 20][config % 4] ?? 0);
  const code = toc & 3;
  const frames = code === 0 ? 1 : code < 3 ? 2 : view.getUint8(at + 1) & 0x3f;
  return frameMs * frames;
}
