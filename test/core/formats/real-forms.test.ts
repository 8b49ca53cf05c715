/** Forms as clients write them: each is taken, and goes upstream with the same fields. */
import OpenAI from "openai";
import { describe, expect, it } from "vitest";
import { identityOf } from "../../../src/core/endpoints/body.ts";
import { freshBoundary } from "../../../src/core/formats/multipart/form-writer.ts";
import { boundaryOf, parseForm } from "../../../src/core/formats/multipart.ts";
import { toEnd } from "../../../src/core/steps.ts";
import { B, bytesOf, comparable, part, rawPart, readAsFormData, rewritten, textOf, wire } from "../../support/forms.ts";

const AUDIO = "RIFF\0\r\n--\xff";
const wanted = [
  ["model", null, "target"],
  ["file", "file", AUDIO],
  ["language", null, "en"],
];
/** The headers of a text field and of a file, as a client writes them. */
const CLIENTS: readonly (readonly [client: string, text: string, file: string])[] = [
  [
    "curl",
    'Content-Disposition: form-data; name="language"',
    'Content-Disposition: form-data; name="file"; filename="a \\"b\\".wav"\r\nContent-Type: audio/wav',
  ],
  [
    "Chrome, of a recorder's blob",
    'Content-Disposition: form-data; name="language"',
    'Content-Disposition: form-data; name="file"; filename="blob"\r\nContent-Type: audio/webm;codecs=opus',
  ],
  [
    "Firefox, with a name beyond ASCII",
    'Content-Disposition: form-data; name="language"',
    'Content-Disposition: form-data; name="file"; filename="t\xc3\xa9%22st.wav"\r\nContent-Type: audio/x-wav',
  ],
  [
    "Python requests",
    'Content-Disposition: form-data; name="language"',
    'Content-Disposition: form-data; name="file"; filename="C:\\dir\\a.wav"',
  ],
  [
    "Python httpx",
    'Content-Disposition: form-data; name="language"',
    'Content-Disposition: form-data; name="file"; filename="a.wav"\r\nContent-Type: audio/x-wav',
  ],
  [
    "aiohttp",
    'Content-Type: text/plain; charset=utf-8\r\nContent-Disposition: form-data; name="language"',
    'Content-Type: application/octet-stream\r\nContent-Disposition: form-data; name="file"; filename="a.wav"',
  ],
  [
    ".NET",
    "Content-Type: text/plain; charset=utf-8\r\nContent-Disposition: form-data; name=language",
    "Content-Type: audio/wav\r\nContent-Disposition: form-data; name=file; filename=a.wav; filename*=utf-8''a%C3%A9.wav",
  ],
  [
    "OkHttp",
    'Content-Disposition: form-data; name="language"\r\nContent-Length: 2',
    `Content-Disposition: form-data; name="file"; filename="a.wav"\r\nContent-Type: audio/wav\r\nContent-Length: ${AUDIO.length}`,
  ],
  [
    "Apache HttpClient",
    'Content-Disposition: form-data; name="language"\r\nContent-Type: text/plain; charset=ISO-8859-1\r\nContent-Transfer-Encoding: 8bit',
    'Content-Disposition: form-data; name="file"; filename="a.wav"\r\nContent-Type: application/octet-stream\r\nContent-Transfer-Encoding: binary',
  ],
  [
    "Dart",
    'content-disposition: form-data; name="language"',
    'content-type: application/octet-stream\r\ncontent-disposition: form-data; name="file"; filename="a.wav"',
  ],
  [
    "Go",
    'Content-Disposition: form-data; name="language"',
    'Content-Disposition: form-data; name="file"; filename="a.wav"\r\nContent-Type: application/octet-stream',
  ],
];

describe("a form of a real client", () => {
  it.each(CLIENTS)("is taken: %s", async (_, text, file) => {
    const sent = rewritten(wire(part('name="model"', "m"), rawPart(file, AUDIO), rawPart(text, "en")));
    if (!sent) throw new Error("it was refused");
    expect(comparable(sent.expected)).toEqual(wanted);
    expect(comparable(await readAsFormData(sent.body, sent.contentType))).toEqual(wanted);
  });

  const live = async (body: BodyInit): Promise<void> => {
    const response = new Response(body);
    const boundary = boundaryOf(response.headers.get("content-type") ?? "");
    if (!boundary.ok) throw new Error(boundary.message);
    const sent = rewritten(textOf(new Uint8Array(await response.arrayBuffer())), boundary.boundary);
    expect(comparable(sent?.expected ?? []).toSorted()).toEqual(wanted.toSorted());
  };
  const fields = () => {
    const data = new FormData();
    data.set("model", "m");
    data.set("file", new File([bytesOf(AUDIO)], 'a "b".wav'));
    data.set("language", "en");
    return data;
  };

  it("is taken: fetch", () => live(fields()));

  it("is taken: the OpenAI SDK", async () => {
    const bodies: BodyInit[] = [];
    const fetch = async (_: unknown, init?: RequestInit) => {
      if (init?.body) bodies.push(init.body as BodyInit);
      return Response.json({ text: "" });
    };
    const client = new OpenAI({ apiKey: "k", fetch });
    const file = new File([bytesOf(AUDIO)], "a.wav");
    await client.audio.transcriptions.create({ model: "m", file, language: "en" });
    await live(bodies[0] ?? "");
  });

  it("may begin with a line end, and need not end with one", () => {
    const text = wire(part('name="x"', "a"));
    expect(rewritten(`\r\n${text}`)).toBeDefined();
    expect(rewritten(text.slice(0, -2))).toBeDefined();
  });
});

describe("the identity of a form", () => {
  const identity = (text: string, boundary = B, seed = 1) => {
    const read = parseForm(bytesOf(text.replaceAll(B, boundary)), boundary);
    if (!read.ok) throw new Error(read.message);
    const raw = { kind: "form", boundary: freshBoundary(new Uint8Array(16).fill(seed)), parts: read.parts } as const;
    return toEnd(identityOf(raw)).map(textOf);
  };
  const file = (parameters: string, type = "audio/wav") =>
    rawPart(`Content-Disposition: form-data; ${parameters}\r\nContent-Type: ${type}`, "x");

  it("is the same under another boundary, and however the same headers are written", () => {
    const one = identity(wire(part('name="a"', "1"), file('name="f"; filename="a.wav"')));
    const lower = (text: string) => text.replaceAll("Content-Disposition", "content-disposition");
    const other = wire(lower(part("name=a", "1")), lower(file('filename=a.wav; name="f"')));
    expect(identity(other, "another", 2)).toEqual(one);
  });

  it("differs where the form does, though its bytes in a row are the same", () => {
    const forms = [
      wire(part('name="a"', "1"), part('name="b"', "2")),
      wire(part('name="a"', "12"), part('name="b"', "")),
      wire(part('name="a"', '1["b"]2')),
      wire(part('name="b"', "2"), part('name="a"', "1")),
      wire(part('name="ab"', "12")),
      wire(part('name="a"', "1")),
      wire(part('name="a"; filename="1"', "1")),
      wire(part('name="a"; filename="2"', "1")),
      wire(file('name="a"; filename="1"')),
      wire(file('name="a"; filename="1"', "audio/mpeg")),
    ];
    const identities = forms.map((text) => JSON.stringify(identity(text)));
    expect(new Set(identities).size).toBe(forms.length);
  });
});
