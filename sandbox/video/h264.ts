/**
 * A grey film in H.264, written by hand: one picture without residual, then pictures that skip every block. A frame
 * costs one byte a block, and each frame after it a few bytes (ITU-T H.264, baseline profile, CAVLC).
 */

/** Bits, the most significant first. */
class Bits {
  readonly #bits: number[] = [];

  fixed(value: number, length: number): this {
    for (let bit = length - 1; bit >= 0; bit--) this.#bits.push((value >>> bit) & 1);
    return this;
  }

  /** Exp-Golomb codes of unsigned numbers. */
  golomb(...values: readonly number[]): this {
    for (const value of values) {
      const length = 32 - Math.clz32(value + 1);
      this.fixed(0, length - 1).fixed(value + 1, length);
    }
    return this;
  }

  /** Closes with a one bit, then zeros to fill the byte. */
  bytes(): Uint8Array {
    this.#bits.push(1);
    while (this.#bits.length % 8 !== 0) this.#bits.push(0);
    const bytes = new Uint8Array(this.#bits.length / 8);
    for (const [index, bit] of this.#bits.entries()) bytes[index >> 3] = ((bytes[index >> 3] ?? 0) << 1) | bit;
    return bytes;
  }
}

const BLOCK = 16;
const LEVEL = 52;
const FRAME_NUMBERS = 16;
/**
 * A block predicted from its neighbours' mean, nothing added: mb_type 3, chroma mode 0, no change of quantiser, no
 * coefficients.
 */
const GREY_BLOCK = 0b00100111;

const blocksOf = (pixels: number): number => Math.ceil(pixels / BLOCK);

/** Sequence parameters: size in blocks, cropped to the wanted pixels (both even). */
export function sequenceParameters(width: number, height: number): Uint8Array {
  const [across, down] = [blocksOf(width), blocksOf(height)];
  const bits = new Bits().fixed(66, 8).fixed(0xc0, 8).fixed(LEVEL, 8).golomb(0, 0, 2, 1).fixed(0, 1);
  bits.golomb(across - 1, down - 1).fixed(0b111, 3);
  bits.golomb(0, (across * BLOCK - width) / 2, 0, (down * BLOCK - height) / 2).fixed(0, 1);
  return unit(0x67, bits.bytes());
}

export function pictureParameters(): Uint8Array {
  return unit(
    0x68,
    new Bits().golomb(0, 0).fixed(0, 2).golomb(0, 0, 0).fixed(0, 3).golomb(0, 0, 0).fixed(0, 3).bytes(),
  );
}

export function firstPicture(width: number, height: number): Uint8Array {
  const bits = new Bits().golomb(0, 7, 0).fixed(0, 4).golomb(0).fixed(0, 2).golomb(0);
  for (let block = blocksOf(width) * blocksOf(height); block > 0; block--) bits.fixed(GREY_BLOCK, 8);
  return unit(0x65, bits.bytes());
}

/** The same picture again. */
export function samePicture(width: number, height: number, index: number): Uint8Array {
  const bits = new Bits()
    .golomb(0, 5, 0)
    .fixed(index % FRAME_NUMBERS, 4)
    .fixed(0, 3)
    .golomb(0);
  return unit(0x41, bits.golomb(blocksOf(width) * blocksOf(height)).bytes());
}

/** A unit with its header. A 3 after two zeros prevents false start codes. */
function unit(header: number, payload: Uint8Array): Uint8Array {
  const bytes = [header];
  let zeros = 0;
  for (const byte of payload) {
    if (zeros >= 2 && byte <= 3) {
      bytes.push(3);
      zeros = 0;
    }
    bytes.push(byte);
    zeros = byte === 0 ? zeros + 1 : 0;
  }
  return Uint8Array.from(bytes);
}
