/** A PNG of the requested size: stripes in two colours that depend on a seed, one bit a pixel. */
import { ascii, bigEndian, concat } from "../bytes.ts";
import { numbersFrom } from "../seed.ts";

const SIGNATURE = Uint8Array.of(0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a);
const BIT_DEPTH = 1;
const PALETTE = 3;

export async function png(width: number, height: number, seed: number): Promise<Uint8Array<ArrayBuffer>> {
  const next = numbersFrom(seed);
  const header = concat([bigEndian(4, width, height), Uint8Array.of(BIT_DEPTH, PALETTE, 0, 0, 0)]);
  const colours = Uint8Array.from({ length: 6 }, () => Math.floor(next() * 256));
  return concat([
    SIGNATURE,
    chunk("IHDR", header),
    chunk("PLTE", colours),
    chunk("IDAT", await deflate(stripes(width, height, next))),
    chunk("IEND", new Uint8Array(0)),
  ]);
}

/** Scan lines, each after a zero byte for "no filter". */
function stripes(width: number, height: number, next: () => number): Uint8Array<ArrayBuffer> {
  const perLine = 1 + Math.ceil(width / 8);
  const lines = new Uint8Array(perLine * height);
  const patterns = Array.from({ length: 16 }, () => Math.floor(next() * 256));
  for (let row = 0; row < height; row++) {
    lines.fill(patterns[Math.floor((row * 16) / height)] ?? 0, row * perLine + 1, (row + 1) * perLine);
  }
  return lines;
}

async function deflate(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
  const packed = new Response(bytes).body?.pipeThrough(new CompressionStream("deflate"));
  return new Uint8Array(await new Response(packed ?? null).arrayBuffer());
}

function chunk(type: string, data: Uint8Array): Uint8Array {
  const body = concat([ascii(type), data]);
  return concat([bigEndian(4, data.length), body, bigEndian(4, crc32(body))]);
}

const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, index) => {
  let value = index;
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? 0xedb88320 ^ (value >>> 1) : value >>> 1;
  return value;
});

function crc32(bytes: Uint8Array): number {
  let crc = 0xffffffff;
  for (const byte of bytes) crc = (CRC_TABLE[(crc ^ byte) & 0xff] ?? 0) ^ (crc >>> 8);
  return (crc ^ 0xffffffff) >>> 0;
}
