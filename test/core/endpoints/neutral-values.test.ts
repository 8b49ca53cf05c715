/** Values that mean the same as leaving a field out, and what goes upstream for them. */
import { describe, expect, it } from "vitest";
import type { RawBody } from "../../../src/core/endpoints/body.ts";
import type { Endpoint } from "../../../src/core/endpoints/endpoint.ts";
import { imageEdits, imageGenerations } from "../../../src/core/endpoints/inference/images.ts";
import { getResponse } from "../../../src/core/endpoints/inference/responses.ts";
import { joinBytes } from "../../../src/core/formats/bytes.ts";
import { formBody, type formBytes } from "../../support/fixtures.ts";

const parse = (endpoint: Endpoint, body: RawBody) => endpoint.parse({ askedPath: "/", params: {}, body });

function sentBy(endpoint: Endpoint, body: RawBody): string {
  const parsed = parse(endpoint, body);
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.refusal));
  return new TextDecoder().decode(joinBytes(parsed.call.payload.encode({}) ?? []));
}

const image = (size: unknown): RawBody => ({ kind: "json", value: { model: "m", prompt: "x", size } });
const edit = (...more: Parameters<typeof formBytes>[0]): RawBody => formBody(["model", "m"], ["prompt", "x"], ...more);
const FILE = "file-bytes";

describe("a size of auto", () => {
  it("is not sent: the contract has no such size, and no size is its default", () => {
    expect(sentBy(imageGenerations, image("auto"))).not.toContain("size");
    expect(sentBy(imageGenerations, image("512x512"))).toContain('"size":"512x512"');
    const fields = [["image", FILE, "a.png"]] as const;
    expect(sentBy(imageEdits, edit(...fields, ["size", "auto"]))).not.toContain("size");
    expect(sentBy(imageEdits, edit(...fields, ["size", "512x512"]))).toContain("512x512");
  });
});

describe("a list of images", () => {
  it("of one is sent as the image", () => {
    expect(sentBy(imageEdits, edit(["image[]", FILE, "a.png"]))).toMatch(/name="image";[\s\S]*file-bytes/);
  });

  it.each<[string, ...Parameters<typeof formBytes>[0]]>([
    ["two in the list", ["image[]", FILE, "a.png"], ["image[]", FILE, "b.png"]],
    ["one in the list beside the image", ["image", FILE, "a.png"], ["image[]", FILE, "b.png"]],
  ])("of more is refused with their number: %s", (_, ...fields) => {
    expect(parse(imageEdits, edit(...fields))).toMatchObject({
      ok: false,
      refusal: { param: "image", message: "`image` must be one file: 2 were sent, and one image is edited per call." },
    });
  });

  it("of a text is no image", () => {
    expect(parse(imageEdits, edit(["image[]", FILE]))).toMatchObject({ ok: false, refusal: { param: "image" } });
  });
});

describe("a stored response", () => {
  const asked = (query: string) =>
    getResponse.parse({ askedPath: `/v1/responses/resp_1${query}`, params: { id: "resp_1" }, body: { kind: "none" } });

  it.each(["?stream=true", "?stream=1", "?include[]=x&stream=true", "?%73tream=true", "?stream=True&stream=false"])(
    "is not streamed: %s names `stream`",
    (query) => {
      expect(asked(query)).toMatchObject({
        ok: false,
        refusal: { param: "stream", message: expect.stringMatching(/^`stream` is not accepted: nothing is streamed/) },
      });
    },
  );

  it.each(["", "?", "?stream=false", "?stream=", "?stream", "?include[]=x", "?x=%zz"])("is read whole: %s", (query) => {
    expect(asked(query)).toMatchObject({ ok: true });
  });
});
