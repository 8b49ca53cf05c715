import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { imageEdits } from "../../../src/core/endpoints/inference/images.ts";
import { joinBytes } from "../../../src/core/formats/bytes.ts";
import { boundaryOf, parseForm } from "../../../src/core/formats/multipart.ts";
import { BOUNDARY, FRESH_BOUNDARY, formBytes } from "../../support/fixtures.ts";
import { allowedMs } from "../../support/slowness.ts";

const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
const parse = (bytes: Uint8Array) => parseForm(bytes, BOUNDARY);

describe("taking a form apart", () => {
  it("gives every part its name, file name, type and exact bytes, in order, whatever they are", () => {
    const parts = fc.array(
      fc.tuple(fc.stringMatching(/^[a-z_]{1,12}$/), fc.uint8Array({ maxLength: 300 }), fc.option(fc.constant("a.wav"))),
      { maxLength: 10 },
    );
    fc.assert(
      fc.property(parts, (given) => {
        const fields = given.map(([name, value, file]) =>
          file === null ? ([name, value] as const) : ([name, value, file] as const),
        );
        const form = parse(formBytes(fields));
        expect(form.ok && form.parts.map(({ name, content, fileName }) => [name, [...content], fileName])).toEqual(
          given.map(([name, value, file]) => [name, [...value], file ?? undefined]),
        );
      }),
    );
  });

  it("copies nothing: parts are views of the body", () => {
    const body = formBytes([["file", new Uint8Array(1000), "x.wav"]]);
    const form = parse(body);
    expect(form.ok && form.parts[0]?.content.buffer).toBe(body.buffer);
  });

  it("is not fooled by bytes that look like a boundary, or by file names that climb", () => {
    const tricky = `x\r\n--${BOUNDARY.slice(0, -1)}\r\n--\r\n`;
    const form = parse(formBytes([["file", tricky, "../../etc/passwd"]]));
    expect(form.ok && [text(form.parts[0]?.content ?? new Uint8Array()), form.parts[0]?.fileName]).toEqual([
      tricky,
      "../../etc/passwd",
    ]);
  });

  it.each<[string, Uint8Array, string]>([
    ["nothing", new Uint8Array(), "does not begin"],
    ["another boundary", Buffer.from("--other\r\n\r\n--other--"), "does not begin"],
    ["cut off", formBytes([["a", "b"]]).subarray(0, -10), "cut off"],
    ["a part without headers' end", Buffer.from(`--${BOUNDARY}\r\nx\r\n--${BOUNDARY}--`), "no end of its headers"],
    [
      "a part without a name",
      Buffer.from(`--${BOUNDARY}\r\nContent-Disposition: form-data\r\n\r\nx\r\n--${BOUNDARY}--`),
      "with a name",
    ],
    ["a malformed boundary line", Buffer.from(`--${BOUNDARY} x`), "malformed boundary"],
    [
      "10,000 parts",
      formBytes(Array.from({ length: 10_000 }, (_, index) => [`f${index}`, "x"] as const)),
      "more than 64",
    ],
  ])("refuses %s with the reason", (_, body, why) => {
    expect(parse(body)).toEqual({ ok: false, message: expect.stringContaining(why) });
  });

  it("reads the boundary as content types write it", () => {
    const found = (contentType: string) => {
      const boundary = boundaryOf(contentType);
      return boundary.ok ? boundary.boundary : undefined;
    };
    expect(found("multipart/form-data; boundary=abc")).toBe("abc");
    expect(found('Multipart/Form-Data;Boundary="a=b:c"')).toBe("a=b:c");
    expect(found('multipart/form-data; charset=UTF-8; boundary="ab"')).toBe("ab");
    expect(found(`multipart/form-data; boundary=${"a".repeat(70)}`)).toBe("a".repeat(70));
  });

  it.each([
    ["none", "multipart/form-data"],
    ["an empty one", 'multipart/form-data; boundary=""'],
    ["a long one", `multipart/form-data; boundary=${"a".repeat(71)}`],
    ["two", "multipart/form-data; boundary=a; boundary=b"],
    ["two in another case", "multipart/form-data; boundary=a; BOUNDARY=b"],
    ["two headers in one", "multipart/form-data; boundary=a, multipart/form-data; boundary=b"],
    ["one with a space in it", 'multipart/form-data; boundary="a b"'],
    ["one with a backslash", 'multipart/form-data; boundary="a\\b"'],
    ["one with a quote", 'multipart/form-data; boundary="a\\"b"'],
    ["one with a line end", 'multipart/form-data; boundary="a\r\nb"'],
    ["one that is no token", "multipart/form-data; boundary=a=b"],
    ["spaces around =", "multipart/form-data; boundary = a"],
    ["boundary*", "multipart/form-data; boundary*=utf-8''a"],
    ["an unknown parameter", "multipart/form-data; boundary=a; x=y"],
    ["another charset", "multipart/form-data; boundary=a; charset=utf-16"],
    ["nothing", ""],
  ])("refuses a boundary: %s", (_, contentType) => {
    expect(boundaryOf(contentType)).toEqual({ ok: false, message: expect.any(String) });
  });

  it("is not slowed by a body that is nearly all boundary", () => {
    const boundary = "a".repeat(70);
    const head = `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n`;
    for (const filler of ["a", `\n--${"a".repeat(69)}`, "\n", "--"]) {
      const content = filler.repeat(Math.floor((8 * 1024 * 1024) / filler.length));
      const started = performance.now();
      const form = parseForm(Buffer.from(`${head}${content}\r\n--${boundary}--`), boundary);
      expect(form.ok && form.parts[0]?.content.length).toBe(content.length);
      // Compared at each byte again, the first of these takes seconds.
      expect(performance.now() - started).toBeLessThan(allowedMs(1_000));
    }
  });
});

describe("a form on its way upstream", () => {
  it("may repeat a list's name, and nothing else's", () => {
    const lists = ["x[]", "x[]"].map((name) => [name, "1"] as const);
    expect(edit(["model", "m"], IMAGE, ["prompt", "x"], ...lists)).toMatchObject({ ok: true });
  });

  const edit = (...fields: Parameters<typeof formBytes>[0]) => {
    const form = parse(formBytes(fields));
    if (!form.ok) throw new Error(form.message);
    return imageEdits.parse({
      askedPath: "",
      params: {},
      body: { kind: "form", boundary: FRESH_BOUNDARY, parts: form.parts },
    });
  };
  const IMAGE = ["image", new Uint8Array([0, 13, 10, 45, 45, 255]), "../a.png"] as const;

  it.each([
    ["before", [["model", "m"], IMAGE, ["prompt", "x"], ["extra", "y"]] as const],
    ["after", [IMAGE, ["prompt", "x"], ["extra", "y"], ["model", "m"]] as const],
  ])(
    "has the target's model, wherever the caller's stood (%s the file), and every other part as it was",
    (_, fields) => {
      const parsed = edit(...fields);
      if (!parsed.ok) throw new Error(JSON.stringify(parsed.refusal));
      const sent = parseForm(joinBytes(parsed.call.payload.encode({ model: "target" }) ?? []), FRESH_BOUNDARY);
      if (!sent.ok) throw new Error(sent.message);
      const fieldsSent = Object.fromEntries(sent.parts.map(({ name, content }) => [name, [...content]]));
      expect(text(new Uint8Array(fieldsSent.model ?? []))).toBe("target");
      expect(fieldsSent.image).toEqual([...IMAGE[1]]);
      expect(sent.parts.map(({ name }) => name).sort()).toEqual(["extra", "image", "model", "prompt"]);
      expect(parsed.call.payload.contentType).toBe(`multipart/form-data; boundary=${FRESH_BOUNDARY}`);
    },
  );

  it.each<[string, Parameters<typeof formBytes>[0], string | null]>([
    ["two models", [["model", "a"], ["model", "b"], IMAGE, ["prompt", "x"]], "model"],
    [
      "no image",
      [
        ["model", "a"],
        ["prompt", "x"],
      ],
      "image",
    ],
    [
      "an image that is text",
      [
        ["model", "a"],
        ["image", "x"],
        ["prompt", "x"],
      ],
      "image",
    ],
    [
      "an empty image",
      [
        ["model", "a"],
        ["image", "", "a.png"],
        ["prompt", "x"],
      ],
      "image",
    ],
    ["a model that is a file", [["model", "a", "a.txt"], IMAGE, ["prompt", "x"]], "model"],
    ["a user that is a file", [["model", "a"], ["user", "u", "u.txt"], IMAGE, ["prompt", "x"]], "user"],
    ["a long name", [["model", "a"], IMAGE, ["prompt", "x"], ["y".repeat(101), "z"]], "y".repeat(100)],
    ["more than one image to make", [["model", "a"], IMAGE, ["prompt", "x"], ["n", "2"]], "n"],
    ["a refused field", [["model", "a"], IMAGE, ["prompt", "x"], ["api_key", "k"]], "api_key"],
    [
      "a refused field inside another",
      [["model", "a"], IMAGE, ["prompt", "x"], ["extra[api_base]", "k"]],
      "extra[api_base]",
    ],
    ["a text that is no UTF-8", [["model", "a"], IMAGE, ["prompt", new Uint8Array([0xff])]], "prompt"],
  ])("is refused with %s, naming the field", (_, fields, param) => {
    expect(edit(...fields)).toMatchObject({ ok: false, refusal: { kind: "invalid_request", param } });
  });
});
