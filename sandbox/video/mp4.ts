/**
 * A small playable mp4 of the right size and length: a silent grey film, 24 frames a second, with the index before the
 * data.
 */
import { ascii, bigEndian, concat } from "../bytes.ts";
import { firstPicture, pictureParameters, samePicture, sequenceParameters } from "./h264.ts";

const FPS = 24;
const TIMESCALE = 24_000;
const FRAME_UNITS = TIMESCALE / FPS;
const IDENTITY = [0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000];

export function mp4(width: number, height: number, seconds: number): Uint8Array<ArrayBuffer> {
  const pictures = Array.from({ length: seconds * FPS }, (_, index) =>
    index === 0 ? firstPicture(width, height) : samePicture(width, height, index),
  );
  // Each picture after its length, as avcC requires.
  const samples = pictures.map((picture) => concat([bigEndian(4, picture.length), picture]));
  const type = box("ftyp", ascii("isom"), bigEndian(4, 0x200), ascii("isomavc1"));
  const film = (offset: number) => movie(width, height, samples, offset);
  const dataAt = type.length + film(0).length + 8;
  return concat([type, film(dataAt), box("mdat", ...samples)]);
}

function box(type: string, ...body: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const inner = concat(body);
  return concat([bigEndian(4, inner.length + 8), ascii(type), inner]);
}

const words = (...values: readonly number[]) => bigEndian(4, ...values);
const halves = (...values: readonly number[]) => bigEndian(2, ...values);

function movie(width: number, height: number, samples: readonly Uint8Array[], dataAt: number): Uint8Array {
  const units = samples.length * FRAME_UNITS;
  const header = box(
    "mvhd",
    words(0, 0, 0, TIMESCALE, units, 0x10000),
    halves(0x100, 0),
    words(0, 0, ...IDENTITY, 0, 0, 0, 0, 0, 0, 2),
  );
  const track = box(
    "tkhd",
    words(3, 0, 0, 1, 0, units, 0, 0),
    halves(0, 0, 0, 0),
    words(...IDENTITY, width * 0x10000, height * 0x10000),
  );
  const media = box(
    "mdia",
    box("mdhd", words(0, 0, 0, TIMESCALE, units), halves(0x55c4, 0)),
    box("hdlr", words(0, 0), ascii("vide"), words(0, 0, 0), ascii("video\0")),
    box(
      "minf",
      box("vmhd", words(1, 0, 0)),
      box("dinf", box("dref", words(0, 1), box("url ", words(1)))),
      sampleTable(width, height, samples, dataAt),
    ),
  );
  return box("moov", header, box("trak", track, media));
}

function sampleTable(width: number, height: number, samples: readonly Uint8Array[], dataAt: number): Uint8Array {
  return box(
    "stbl",
    box("stsd", words(0, 1), sampleEntry(width, height)),
    box("stts", words(0, 1, samples.length, FRAME_UNITS)),
    box("stss", words(0, 1, 1)),
    box("stsc", words(0, 1, 1, samples.length, 1)),
    box("stsz", words(0, 0, samples.length, ...samples.map(({ length }) => length))),
    box("stco", words(0, 1, dataAt)),
  );
}

function sampleEntry(width: number, height: number): Uint8Array {
  const [sps, pps] = [sequenceParameters(width, height), pictureParameters()];
  const configuration = box(
    "avcC",
    Uint8Array.of(1, ...sps.subarray(1, 4), 0xff, 0xe1),
    halves(sps.length),
    sps,
    Uint8Array.of(1),
    halves(pps.length),
    pps,
  );
  return box(
    "avc1",
    halves(0, 0, 0, 1),
    words(0, 0, 0, 0),
    halves(width, height),
    words(0x480000, 0x480000, 0),
    halves(1),
    new Uint8Array(32),
    halves(0x18, 0xffff),
    configuration,
  );
}
