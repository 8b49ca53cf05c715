import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Endpoint } from "../../../src/core/endpoints/endpoint.ts";
import { videoGenerations, videoQuote } from "../../../src/core/endpoints/inference/video.ts";
import { joinBytes } from "../../../src/core/formats/bytes.ts";
import { urlFault } from "../../../src/core/formats/public-url.ts";

const MODEL = "service-video-gen-2.0";
const BASE = { model: MODEL, prompt: "a cat on a roof" };
const at = (name: string) => `https://media.example/${name}`;
const images = (count: number) => Array.from({ length: count }, (_, index) => at(`${index}.png`));
const framed = (...roles: (string | undefined)[]) =>
  roles.map((role, index) => ({ url: at(`${index}.png`), ...(role !== undefined && { role }) }));

const parse = (value: unknown, endpoint: Endpoint = videoGenerations) =>
  endpoint.parse({ askedPath: "", params: {}, body: { kind: "json", value } });
function sent(fields: object): Record<string, unknown> {
  const parsed = parse({ ...BASE, ...fields });
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.refusal));
  return JSON.parse(new TextDecoder().decode(joinBytes(parsed.call.payload.encode({ model: "t" }) ?? [])));
}
/** `accepted`, or the field and the number of the rule that the refusal names. */
function verdict(value: unknown, endpoint?: Endpoint): string {
  const parsed = parse(value, endpoint);
  if (parsed.ok) return "accepted";
  const { refusal } = parsed;
  if (refusal.kind !== "invalid_request") return refusal.kind;
  const rule = /rule \d/.exec(refusal.message)?.[0];
  return rule ? `${rule} ${refusal.param}` : String(refusal.param);
}

describe("the fields of a submission and of a quote, each at its limits and one beyond", () => {
  it.each<[object, string]>([
    [{}, "accepted"],
    [{ model: undefined }, "model"],
    [{ model: "" }, "model"],
    [{ prompt: undefined }, "prompt"],
    [{ prompt: " \n" }, "prompt"],
    [{ prompt: "word ".repeat(1500) }, "accepted"],
    ...["480p", "720p", "1080p", "4k"].map((resolution): [object, string] => [{ resolution }, "accepted"]),
    [{ resolution: "360p" }, "resolution"],
    [{ resolution: "4K" }, "resolution"],
    [{ resolution: null }, "accepted"],
    ...["16:9", "4:3", "1:1", "3:4", "9:16", "21:9", "adaptive"].map((aspect_ratio): [object, string] => [
      { aspect_ratio },
      "accepted",
    ]),
    [{ aspect_ratio: "2:1" }, "aspect_ratio"],
    [{ generate_audio: false }, "accepted"],
    [{ generate_audio: "no" }, "generate_audio"],
    ...[3, 4, 15, 16, -1, 0, 1_000_000].map((duration): [object, string] => [{ duration }, "accepted"]),
    [{ duration: 4.5 }, "duration"],
    [{ duration: "5" }, "duration"],
    [{ seed: 7, width: 1, height: "x", num_inference_steps: [] }, "accepted"],
    [{ num_frames: 120, fps: 24 }, "accepted"],
    [{ num_frames: 0, fps: 24 }, "num_frames"],
    [{ num_frames: 120, fps: 0 }, "fps"],
    [{ num_frames: 120, fps: "24" }, "fps"],
    [{ duration: 5, num_frames: "many", fps: 0 }, "accepted"],
    [{ reference_image_urls: images(9) }, "accepted"],
    [{ reference_image_urls: images(10) }, "reference_image_urls"],
    [{ reference_images: framed(...Array(9).fill(undefined)) }, "accepted"],
    [{ reference_images: framed(...Array(10).fill(undefined)) }, "reference_images"],
    [{ reference_video_urls: images(3) }, "accepted"],
    [{ reference_video_urls: images(4) }, "reference_video_urls"],
    [{ reference_audio_urls: images(3), reference_image_urls: images(1) }, "accepted"],
    [{ reference_audio_urls: images(4), reference_image_urls: images(1) }, "reference_audio_urls"],
    [{ reference_images: [{ role: "first_frame" }] }, "reference_images[0].url"],
    [{ reference_images: framed("middle_frame") }, "reference_images[0].role"],
    [{ reference_images: [at("a.png")] }, "reference_images[0]"],
    [{ reference_images: [{ url: "http://media.example/a.png" }] }, "reference_images[0].url"],
    [{ reference_image_urls: ["data:image/png;base64,AAAA"] }, "reference_image_urls[0]"],
    [{ reference_video_url: "iVBORw0KGgo=" }, "reference_video_url"],
    [{ reference_video_urls: "https://media.example/a.mp4" }, "reference_video_urls"],
    [{ api_base: "https://elsewhere.example" }, "api_base"],
  ])("%j: %s", (fields, expected) => {
    expect(verdict({ ...BASE, ...fields })).toBe(expected);
    expect(verdict({ ...BASE, ...fields }, videoQuote)).toBe(expected);
  });
});

describe("modes and rules, by number", () => {
  it.each<[string, object, string]>([
    ["text to video", {}, "accepted"],
    ["first frame", { reference_images: framed("first_frame") }, "accepted"],
    ["first and last frames", { reference_images: framed("first_frame", "last_frame") }, "accepted"],
    ["last before first", { reference_images: framed("last_frame", "first_frame") }, "accepted"],
    ["references", { reference_images: framed("reference_image", undefined) }, "accepted"],
    [
      "references of all kinds",
      { reference_image_urls: images(9), reference_video_urls: images(3), reference_audio_urls: images(3) },
      "accepted",
    ],
    ["1", { reference_images: framed("reference_image", "first_frame") }, "rule 1 reference_images"],
    ["1", { reference_images: framed("first_frame", "last_frame", "reference_image") }, "rule 1 reference_images"],
    ["1, no role", { reference_images: framed("first_frame", undefined) }, "rule 1 reference_images"],
    ["1, last", { reference_images: framed("last_frame", "reference_image") }, "rule 1 reference_images"],
    ["2", { reference_images: framed("last_frame") }, "rule 2 reference_images"],
    ["3", { reference_images: framed("first_frame", "first_frame") }, "rule 3 reference_images"],
    ["3, last", { reference_images: framed("first_frame", "last_frame", "last_frame") }, "rule 3 reference_images"],
    [
      "4, video",
      { reference_images: framed("first_frame"), reference_video_url: at("a.mp4") },
      "rule 4 reference_images",
    ],
    [
      "4, audio",
      { reference_images: framed("first_frame", "last_frame"), reference_audio_urls: [at("a.wav")] },
      "rule 4 reference_images",
    ],
    ["5", { reference_audio_url: at("a.wav") }, "rule 5 reference_audio_url"],
    ["5, plural", { reference_audio_urls: [at("a.wav")] }, "rule 5 reference_audio_urls"],
    ["5, with a video", { reference_audio_url: at("a.wav"), reference_video_url: at("a.mp4") }, "accepted"],
    ["5, with an image", { reference_audio_url: at("a.wav"), reference_image_urls: images(1) }, "accepted"],
    [
      "6, video",
      { reference_video_url: at("a.mp4"), reference_video_urls: [at("a.mp4")] },
      "rule 6 reference_video_url",
    ],
    ["6, empty", { reference_video_url: at("a.mp4"), reference_video_urls: [] }, "rule 6 reference_video_url"],
    [
      "6, audio",
      { reference_audio_url: at("a.wav"), reference_audio_urls: [at("a.wav")], reference_image_urls: images(1) },
      "rule 6 reference_audio_url",
    ],
    ["6, images", { reference_images: framed(undefined), reference_image_urls: images(1) }, "rule 6 reference_images"],
    ["6, null is not given", { reference_video_url: at("a.mp4"), reference_video_urls: null }, "accepted"],
  ])("%s: %j", (_, fields, expected) => {
    expect(verdict({ ...BASE, ...fields })).toBe(expected);
  });

  it("every mix of roles, videos and audios is judged as a plain reading of the rules does", () => {
    const role = fc.constantFrom("first_frame", "last_frame", "reference_image");
    fc.assert(
      fc.property(fc.array(role, { maxLength: 4 }), fc.nat(2), fc.nat(2), (roles, videos, audios) => {
        const [first, last, other] = ["first_frame", "last_frame", "reference_image"].map(
          (one) => roles.filter((each) => each === one).length,
        ) as [number, number, number];
        const fields = {
          reference_images: framed(...roles),
          reference_video_urls: images(videos),
          reference_audio_urls: images(audios),
        };
        const broken =
          (other > 0 && first + last > 0) ||
          (last > 0 && first === 0) ||
          first > 1 ||
          last > 1 ||
          (first + last > 0 && videos + audios > 0) ||
          (audios > 0 && roles.length + videos === 0);
        expect(verdict({ ...BASE, ...fields }) === "accepted").toBe(!broken);
      }),
    );
  });
});

describe("what goes upstream", () => {
  it.each<[object, number]>([
    [{}, 5],
    [{ duration: null }, 5],
    [{ duration: 3 }, 4],
    [{ duration: 4 }, 4],
    [{ duration: 15 }, 15],
    [{ duration: 16 }, 15],
    [{ num_frames: 240, fps: 24 }, 10],
    [{ num_frames: 24, fps: 24 }, 4],
    [{ num_frames: 24_000, fps: 24 }, 15],
    [{ num_frames: 240 }, 5],
    [{ duration: 7, num_frames: 240, fps: 24 }, 7],
  ])("%j lasts %i s, said once and by `duration`", (fields, seconds) => {
    expect(sent(fields)).toEqual({ ...BASE, model: "t", duration: seconds });
  });

  it("is the caller's own values, and nothing in place of null", () => {
    const fields = { reference_images: framed("first_frame"), generate_audio: false, seed: 1, later: { x: [1] } };
    expect(sent({ ...fields, resolution: null, reference_video_urls: null })).toEqual({
      ...BASE,
      ...fields,
      model: "t",
      duration: 5,
    });
  });
});

describe("URLs of references", () => {
  it.each([
    "https://media.example/a.png",
    "https://media.example",
    "https://media.example:8443/a.png?width=1&x=%20#f",
    "HTTPS://Media.Example./a.png",
    "https://8.8.8.8/a.png",
    "https://[2606:4700::1111]/a.png",
    "https://bücher.example/a.png",
    "https://1.2.3.4.example/a.png",
  ])("%s is public", (url) => {
    expect(urlFault(url)).toBeUndefined();
  });

  it.each([
    "http://media.example/a.png",
    "ftp://media.example/a.png",
    "//media.example/a.png",
    "data:image/png;base64,AAAA",
    "AAAA",
    "https://",
    "https://user:secret@media.example/a.png",
    "https://user@media.example/a.png",
    "https://media.example:0/",
    "https://media.example:65536/",
    "https://media.example\\@localhost/",
    "https://media.example/a b.png",
    "https://localhost/a.png",
    "https://LOCALHOST./a.png",
    "https://a.localhost/",
    "https://printer.local/",
    "https://metadata.google.internal/",
    "https://intranet/",
    "https://127.0.0.1/",
    "https://127.1/",
    "https://0x7f.1/",
    "https://2130706433/",
    "https://0177.0.0.1/",
    "https://１２７.０.０.１/",
    "https://ｌｏｃａｌｈｏｓｔ/",
    "https://10.0.0.1/",
    "https://100.64.0.1/",
    "https://169.254.169.254/latest/",
    "https://172.16.0.1/",
    "https://172.31.255.255/",
    "https://192.168.1.1/",
    "https://0.0.0.0/",
    "https://224.0.0.1/",
    "https://255.255.255.255/",
    "https://256.1.1.1/",
    "https://[::1]/",
    "https://[::]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[::ffff:7f00:1]/",
    "https://[64:ff9b::7f00:1]/",
    "https://[2002:7f00:1::]/",
    "https://[fc00::1]/",
    "https://[fe80::1%25eth0]/",
    "https://[2001:db8::1]/",
    "https://-a.example/",
    "https://a..example/",
    "https://%6cocalhost/",
  ])("%s is refused", (url) => {
    expect(urlFault(url)).toBeTypeOf("string");
  });

  it("whatever stands there, judging it ends", () => {
    fc.assert(
      fc.property(fc.webUrl(), fc.string(), (url, text) => {
        urlFault(url);
        urlFault(`https://${text}`);
      }),
    );
  });
});
