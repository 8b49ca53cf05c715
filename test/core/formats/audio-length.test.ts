import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { encodeAudio } from "../../../sandbox/audio/encode.ts";
import { measureMs } from "../../../sandbox/audio/measure.ts";
import { ascii, bigEndian, concat } from "../../../sandbox/bytes.ts";
import { AudioMeasure } from "../../../src/core/formats/audio/measure.ts";
import { recordingLengthMs } from "../../../src/core/formats/audio/recording.ts";
import {
  id3,
  MP3_KINDS,
  type Mp3Kind,
  mp3Frames,
  OPUS_20_MS,
  OPUS_60_MS,
  OPUS_120_MS,
  ogg,
  oggOpus,
  oggVorbis,
  riffChunk,
  VORBIS_HEADERS,
  vorbisPacket,
  wav,
  xingFrame,
} from "../../support/audio.ts";
import { ebml, flac, fragmentedM4a, m4a, webm } from "../../support/audio-containers.ts";
import { allowedMs } from "../../support/slowness.ts";
import { SILENCE } from "../../support/worker/silence.ts";

type Bytes = Uint8Array<ArrayBuffer>;
const times = <T>(count: number, item: T): T[] => Array.from({ length: count }, () => item);
const noise = (length: number): Bytes => {
  let state = 1;
  return Uint8Array.from({ length }, () => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    return state >> 16;
  });
};
const decode = (base64: string): Bytes => new Uint8Array(Buffer.from(base64, "base64"));
const spoken = (format: "wav" | "mp3" | "opus", ms: number, streamed = false): Bytes =>
  concat([...encodeAudio(format, ms, streamed)].map(({ bytes }) => bytes));

/** In the pieces that cuts at these places make. */
function measureInPieces(bytes: Uint8Array, cuts: readonly number[]): number | null {
  const measure = new AudioMeasure();
  const places = [...new Set(cuts.map((cut) => cut % (bytes.length + 1)))].sort((a, b) => a - b);
  let from = 0;
  for (const to of [...places, bytes.length]) {
    measure.push(bytes.subarray(from, to));
    from = to;
  }
  return measure.ms;
}

/** Every format that is measured while it passes, with something awkward in it. */
const PASSING: Readonly<Record<string, readonly [Bytes, number]>> = {
  "a streamed wav": [spoken("wav", 700, true), 700],
  "a wav with chunks around its sound": [
    wav({ ms: 500, before: [riffChunk("LIST", noise(33))], after: riffChunk("LIST", noise(21)), extensible: true }),
    500,
  ],
  "an mp3 with a tag, an index and garbage in the middle": [
    concat([id3(300), xingFrame(9), mp3Frames("mpeg1", 20), noise(2_000), mp3Frames("mpeg2", 20), ascii("TAG")]),
    Math.round(20 * MP3_KINDS.mpeg1.ms + 20 * 24),
  ],
  "Opus in ogg": [oggOpus([...times(60, OPUS_20_MS), ...times(3, OPUS_60_MS), OPUS_120_MS], 7), 1_500],
  "Vorbis in ogg": [oggVorbis(times(48, vorbisPacket(1)), 47 * 1024 - 100), Math.round((47 * 1024 - 100) / 48)],
  flac: [concat([flac(3, 1), noise(500), flac(2, 1).subarray(42)]), Math.round((5 * 4096) / 48)],
};

describe("audio that passes", () => {
  it.each(Object.entries(PASSING))("%s measures the same for any split of its bytes", (_, [bytes, ms]) => {
    fc.assert(
      fc.property(fc.array(fc.nat()), (cuts) => {
        expect(measureInPieces(bytes, cuts)).toBe(ms);
      }),
    );
    expect(measureInPieces(bytes, [...bytes.keys()])).toBe(ms);
  });

  it.each(["wav", "mp3", "opus"] as const)("%s is measured as what was made, whole, streamed and cut", (format) => {
    for (const streamed of [false, true]) {
      const measure = new AudioMeasure();
      for (const { bytes, madeMs } of encodeAudio(format, 2_345, streamed)) {
        measure.push(bytes);
        expect(measure.ms).toBe(madeMs);
      }
    }
  });

  it("bytes of no known format are no measure; too few to tell are nothing", () => {
    expect(measureInPieces(ascii("not audio at all, whatever it says"), [3])).toBe(null);
    expect(measureInPieces(ascii("RIFF"), [])).toBe(0);
  });

  it("the content type is a hint where the first bytes tell nothing", () => {
    const measure = new AudioMeasure("audio/mpeg");
    measure.push(concat([noise(100), mp3Frames("mpeg2", 10)]));
    expect(measure.ms).toBe(240);
  });

  it("never throws, whatever the bytes are", () => {
    const heads = ["RIFF\0\0\0\0WAVEfmt ", "OggS", "fLaC\x80\0\0\0", "ID3\x04\0\0\0\0\0\0", "\xff\xfb\x90\0"];
    const bytes = fc.tuple(fc.constantFrom(...heads.map((head) => ascii(head))), fc.uint8Array({ maxLength: 400 }));
    fc.assert(
      fc.property(bytes, fc.array(fc.nat()), ([head, rest], cuts) => {
        const ms = measureInPieces(concat([head, rest]), cuts);
        expect(ms === null || (Number.isSafeInteger(ms) && ms >= 0)).toBe(true);
      }),
    );
  });
});

const MINUTE_OF_AAC = Math.ceil((60 * 48_000) / 1024);

describe("a recording whose headers lie lasts as long as its data", () => {
  it.each<[string, Bytes, number]>([
    ["a wav whose data claims a second", wav({ ms: 60_000, claimedBytes: 48_000 }), 60_000],
    ["a wav whose data claims nothing", wav({ ms: 60_000, claimedBytes: 0 }), 60_000],
    ["a wav whose data claims 4 GB", wav({ ms: 60_000, claimedBytes: 0xffffffff }), 60_000],
    ["a wav whose byte rate claims a second", wav({ ms: 60_000, claimedByteRate: 60 * 48_000 }), 60_000],
    ["an mp3 whose index claims a second", concat([xingFrame(38), mp3Frames("mpeg2", 2_500)]), 60_000],
    ["an ogg whose pages claim a second", oggOpus(times(3_000, OPUS_20_MS), 50, 1_000), 60_000],
    ["a Vorbis ogg whose pages claim a second", oggVorbis(times(2_813, vorbisPacket(1)), 48_000), 59_989],
    ["a flac that claims a second", flac(704, 48_000), 60_075],
    ["a flac that claims long frames", flac(704, 0, 60_000), 60_075],
    ["an m4a whose headers claim a second", m4a({ frames: MINUTE_OF_AAC, claimedSeconds: 1 }), 60_011],
    ["an m4a with sixty times the units a second", m4a({ frames: MINUTE_OF_AAC, timescale: 60 * 48_000 }), 60_011],
    ["an m4a with short entries in its table", m4a({ frames: MINUTE_OF_AAC, delta: 17 }), 60_011],
    ["fragments with short entries", fragmentedM4a({ frames: MINUTE_OF_AAC, delta: 17, inRuns: true }), 60_011],
    [
      "a webm whose timestamps stand still",
      webm({ codec: "A_OPUS", packets: times(3_000, OPUS_20_MS), claimedMs: () => 0 }),
      60_000,
    ],
  ])("%s", (_, bytes, ms) => {
    expect(recordingLengthMs(bytes)).toBe(ms);
  });
});

describe("a recording that is cut off lasts as long as what is there", () => {
  const half = (bytes: Bytes) => bytes.subarray(0, Math.floor(bytes.length / 2));
  const minute = { frames: MINUTE_OF_AAC, fastStart: true };

  it.each<[string, Bytes]>([
    ["wav", wav({ ms: 60_000 })],
    ["mp3", mp3Frames("mpeg2", 2_500)],
    ["Opus in ogg", oggOpus(times(3_000, OPUS_20_MS))],
    ["Vorbis in ogg", oggVorbis(times(2_813, vorbisPacket(1)))],
    ["flac", flac(703)],
    ["webm", webm({ codec: "A_OPUS", packets: times(3_000, OPUS_20_MS), claimedMs: (packet) => packet * 20 })],
    ["m4a, tables first", m4a(minute)],
    ["m4a, tables first, one size for all", m4a({ ...minute, constantSize: true })],
    ["m4a in fragments", fragmentedM4a(minute)],
    ["m4a in fragments with their own sizes", fragmentedM4a({ ...minute, inRuns: true })],
  ])("%s", (_, bytes) => {
    const ms = recordingLengthMs(half(bytes)) ?? 0;
    expect(ms).toBeGreaterThan(28_000);
    expect(ms).toBeLessThan(32_000);
  });

  it("an m4a whose tables are cut off cannot be read", () => {
    expect(recordingLengthMs(half(m4a({ frames: 100 })))).toBe(null);
  });
});

describe("honest recordings", () => {
  it.each(Object.entries(SILENCE))("the %s of a common encoder, as the service measures it", (_, base64) => {
    expect(recordingLengthMs(decode(base64))).toBe(measureMs(decode(base64)));
  });

  it.each(Object.keys(MP3_KINDS) as Mp3Kind[])("an mp3 of %s", (kind) => {
    expect(recordingLengthMs(mp3Frames(kind, 500))).toBe(Math.round(500 * MP3_KINDS[kind].ms));
  });

  it.each<[string, Parameters<typeof wav>[0]]>([
    ["8 bits", { ms: 1_000, bits: 8 }],
    ["24 bits, stereo", { ms: 1_000, bits: 24, channels: 2, rate: 44_100 }],
    ["float, extensible", { ms: 1_000, bits: 32, format: 3, extensible: true, rate: 96_000 }],
    ["mu-law", { ms: 1_000, bits: 8, format: 7, rate: 8_000 }],
    [
      "notes behind its sound",
      { ms: 1_000, after: concat([riffChunk("LIST", noise(501)), riffChunk("id3 ", noise(9))]) },
    ],
    ["odd chunks before its sound", { ms: 1_000, before: [riffChunk("LIST", noise(5)), riffChunk("JUNK", noise(27))] }],
  ])("a wav of %s", (_, options) => {
    expect(recordingLengthMs(wav(options))).toBe(1_000);
  });

  it("an m4a, its last frame played in part, in one chunk or many, with sizes of any form", () => {
    for (const options of [{ perChunk: 1 }, { perChunk: 1_000 }, { constantSize: true }, { rate: 24_000 as const }]) {
      const ms = Math.round((93 * 1024 * 1000) / (options.rate ?? 48_000));
      expect(recordingLengthMs(m4a({ frames: 93, ...options }))).toBe(ms);
    }
    expect(recordingLengthMs(fragmentedM4a({ frames: 93 }))).toBe(1_984);
    expect(recordingLengthMs(fragmentedM4a({ frames: 93, inRuns: true }))).toBe(1_984);
  });

  it("a webm of Vorbis, with clusters of unknown size, and with a pause that its timestamps leave out", () => {
    const [identification, comment, setup] = VORBIS_HEADERS as [Bytes, Bytes, Bytes];
    const lengths = Uint8Array.of(2, identification.length, comment.length);
    const privateData = concat([lengths, identification, comment, setup]);
    const packets = times(95, vorbisPacket(1));
    const claimedMs = (packet: number) => Math.round((packet * 1024) / 48);
    const file = webm({ codec: "A_VORBIS", packets, claimedMs, privateData, open: true });
    expect(recordingLengthMs(file)).toBe(Math.round((94 * 1024) / 48) + 21);
    const paused = (packet: number) => packet * 20 + (packet > 50 ? 5_000 : 0);
    expect(recordingLengthMs(webm({ codec: "A_OPUS", packets: times(100, OPUS_20_MS), claimedMs: paused }))).toBe(
      7_000,
    );
  });

  it("packets in laces of every kind count one by one", () => {
    const packets = concat([OPUS_20_MS, OPUS_60_MS, OPUS_20_MS]);
    const laces: [number, number[]][] = [
      [0x02, [2, 3, 4]],
      [0x06, [2, 0x83, 0xc0]],
    ];
    for (const [flag, sizes] of laces) {
      expect(recordingLengthMs(laced(flag, concat([Uint8Array.from(sizes), packets])))).toBe(100);
    }
    const equal = concat([Uint8Array.of(2), OPUS_20_MS, OPUS_20_MS, OPUS_20_MS]);
    expect(recordingLengthMs(laced(0x04, equal))).toBe(60);
  });

  it("Ogg streams one after the other add up; one of a codec that is not known plays nothing", () => {
    const second = oggOpus(times(50, OPUS_20_MS));
    expect(recordingLengthMs(concat([second, second]))).toBe(2_000);
    expect(recordingLengthMs(ogg([[ascii("Speex   ")], [ascii("x")], [OPUS_20_MS]], () => 0))).toBe(null);
  });

  it.each<[string, Bytes]>([
    ["nothing", new Uint8Array()],
    ["text", ascii("this is a text and no audio")],
    ["a wav of a compressed codec", wav({ ms: 1_000, format: 0x55 })],
    ["a wav without sound", wav({ ms: 0 })],
    ["a picture", concat([bigEndian(4, 0x89504e47, 0x0d0a1a0a), noise(500)])],
    ["noise", noise(100_000)],
    ["a webm of a codec that webm has not", webm({ codec: "A_PCM/INT/LIT", packets: [noise(9)], claimedMs: () => 0 })],
  ])("%s is no audio of a known format", (_, bytes) => {
    expect(recordingLengthMs(bytes)).toBe(null);
  });
});

function laced(flag: number, block: Bytes): Bytes {
  const track = concat([ebml(0xd7, Uint8Array.of(1)), ebml(0x83, Uint8Array.of(2)), ebml(0x86, ascii("A_OPUS"))]);
  const cluster = ebml(0x1f43b675, ebml(0xa0, ebml(0xa1, concat([Uint8Array.of(0x81, 0, 0, flag), block]))));
  return concat([
    ebml(0x1a45dfa3, ascii("")),
    ebml(0x18538067, concat([ebml(0x1654ae6b, ebml(0xae, track)), cluster])),
  ]);
}

describe("a file of 25 MB made to be slow", () => {
  const filled = (head: Bytes, pattern: readonly number[]): Bytes => {
    const file = new Uint8Array(25 * 1024 * 1024);
    file.set(pattern);
    for (let length = pattern.length; length < file.length; length *= 2) file.copyWithin(length, 0, length);
    file.set(head);
    return file;
  };
  const letters = (text: string) => [...ascii(text)];
  const isoHead = concat([bigEndian(4, 8), ascii("ftyp"), bigEndian(4, 0x01800000), ascii("moov")]);

  it.each<[string, Bytes]>([
    ["false frames of mp3", filled(Uint8Array.of(0xff, 0xfb, 0x90, 0), [0xff])],
    ["frames of flac", filled(ascii("fLaC\x80\0\0\0"), [0xff, 0xf8])],
    ["empty pages", filled(ascii("OggS"), [...letters("OggS"), ...times(23, 0)])],
    [
      "new streams",
      filled(ascii("OggS"), [...letters("OggS"), 0, 2, ...times(8, 0), 1, 2, 3, 4, ...times(8, 0), 1, 0]),
    ],
    ["boxes", filled(isoHead, [0, 0, 0, 8, ...letters("free")])],
    ["tracks", filled(isoHead, [0, 0, 0, 8, ...letters("trak")])],
    ["fragments", filled(isoHead.subarray(0, 8), [0, 0, 0, 16, ...letters("moof"), 0, 0, 0, 8, ...letters("traf")])],
    ["clusters", filled(Uint8Array.of(0x1a, 0x45, 0xdf, 0xa3, 0x80), [0x1f, 0x43, 0xb6, 0x75])],
    ["blocks", filled(Uint8Array.of(0x1a, 0x45, 0xdf, 0xa3, 0x80), [0xa3, 0x85, 0x81, 0, 0, 2, 0xff])],
  ])("of %s takes under a few seconds and is no audio", (_, file) => {
    const started = performance.now();
    expect(recordingLengthMs(file)).toBe(null);
    expect(performance.now() - started).toBeLessThan(allowedMs(4_000));
  });
});
