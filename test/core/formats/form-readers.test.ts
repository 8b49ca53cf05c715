/** Forms are one form for everybody: what goes upstream, as undici and busboy read it. workerd: test/worker. */
import busboy from "busboy";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  B,
  bytesOf,
  comparable,
  type Found,
  HOSTILE_FORM,
  part,
  rawPart,
  readAsFormData,
  rewritten,
  SMUGGLED,
  SOUND_FORM,
  textOf,
  wire,
} from "../../support/forms.ts";

function readAsBusboy(body: Uint8Array, contentType: string): Promise<Found[]> {
  return new Promise((resolve, reject) => {
    const found: [string, string | null, string][] = [];
    const reader = busboy({ headers: { "content-type": contentType } });
    reader.on("field", (name, value) => found.push([name, null, textOf(new TextEncoder().encode(value))]));
    reader.on("file", (name, stream, { filename }) => {
      const file: [string, string | null, string] = [name, filename ?? null, ""];
      found.push(file);
      stream.on("data", (chunk: Buffer) => (file[2] += chunk.toString("latin1")));
    });
    reader.on("close", () => resolve(found));
    reader.on("error", reject);
    reader.end(body);
  });
}

const READERS = [
  ["undici", readAsFormData],
  ["busboy", readAsBusboy],
] as const;

describe.each(READERS)("%s", (_, read) => {
  it("finds in what goes upstream the fields that were judged, whatever the client sent", async () => {
    let accepted = 0;
    const property = fc.asyncProperty(HOSTILE_FORM, async (text) => {
      const sent = rewritten(text);
      if (!sent) return;
      accepted++;
      expect(comparable(await read(sent.body, sent.contentType))).toEqual(comparable(sent.expected));
    });
    await fc.assert(property, { numRuns: 1_500 });
    expect(accepted).toBeGreaterThan(200);
  });

  it("finds each file name in it as it was written", async () => {
    for (const [given, written] of FILE_NAMES) {
      const sent = rewritten(wire(part(`name="file"; filename="${given}"`, "x")));
      expect((await read(sent?.body ?? new Uint8Array(), sent?.contentType ?? ""))[1]).toEqual(["file", written, "x"]);
    }
  });
});

it("a file has a type that is no text, and a field has none", () => {
  const written = (type: string) => {
    const disposition = 'Content-Disposition: form-data; name="file"; filename="a"';
    const sent = rewritten(wire(part('name="x"', "1"), rawPart(`${disposition}${type}`, "2")));
    return textOf(sent?.body ?? new Uint8Array()).match(/content-type.*/gi);
  };
  expect(written("\r\nContent-Type: Audio/WAV; rate=16000")).toEqual(["Content-Type: audio/wav"]);
  expect(written("\r\nContent-Type: image/svg+xml")).toEqual(["Content-Type: image/svg+xml"]);
  for (const type of ["text/plain", "application/json", "application/x-www-form-urlencoded", "audio/a'b", "x/y"]) {
    expect(written(`\r\nContent-Type: ${type}`)).toEqual(["Content-Type: application/octet-stream"]);
  }
  expect(written("")).toEqual(["Content-Type: application/octet-stream"]);
});

const FILE_NAMES = [
  ["a.wav", "a.wav"],
  ["", "file"],
  ["..", "file.."],
  [".wav", "file.wav"],
  ["../../etc/passwd", "passwd"],
  ["C:\\Users\\me\\a.wav", "a.wav"],
  ["C:\\\\a.wav", "a.wav"],
  ['a\\"; name=\\"model.wav', "a___name__model.wav"],
  ["a%22%0d%0a.wav", "a_22_0d_0a.wav"],
  ["\xc3\xa9t\xc3\xa9.mp3", "_t_.mp3"],
  [`${"x".repeat(500)}.wav`, `${"x".repeat(96)}.wav`],
] as const;

describe("a form that readers take for different ones", () => {
  it.each(SMUGGLED)("is refused: %s", (_, text) => {
    expect(rewritten(text)).toBeUndefined();
  });

  // Otherwise the refusals above would show nothing.
  it("would be read differently by them as it came", async () => {
    const differing: string[] = [];
    for (const [what, text] of SMUGGLED) {
      const readings = READERS.map(async ([, read]) => {
        const found = await read(bytesOf(text), `multipart/form-data; boundary=${B}`).catch(() => "refused");
        return JSON.stringify(found);
      });
      const [one, other] = await Promise.all(readings);
      if (one !== other) differing.push(what);
    }
    expect(differing).toEqual(expect.arrayContaining(["two name parameters", "two dispositions", "name*"]));
    expect(differing.length).toBeGreaterThan(20);
  });
});

it("sound forms are never refused", () => {
  fc.assert(
    fc.property(SOUND_FORM, (text) => rewritten(text) !== undefined),
    { numRuns: 500 },
  );
});
