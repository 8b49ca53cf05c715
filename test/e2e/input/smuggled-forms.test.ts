/**
 * Forms that readers take for different ones, through the real process: what is transcribed is what is charged, and a
 * key gets the model that it may use. The service reads with workerd's own reader.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { mp3Frames, wav } from "../../support/audio.ts";
import { B, bytesOf, END, part, rawPart, SMUGGLED, textOf, wire } from "../../support/forms.ts";
import { type Asked, ask, billOf, callIdOf, type Names, owedNanoUsd, serviceFor } from "../../support/service.ts";
import { type ErrorBody, Tenant } from "../../support/tenant.ts";
import { world } from "../../support/world.ts";

const { operator } = world();
let tenant: Tenant;
let names: Names;
let dear: string;
const SHORT = textOf(wav({ ms: 1_000 }));
const LONG = textOf(mp3Frames("mpeg2", 2_500));

beforeAll(async () => {
  const owner = await operator.tenant({ balance_usd: 20 });
  names = await serviceFor(operator, owner);
  dear = (await serviceFor(operator, owner)).transcription;
  const { id, key } = await operator.key(owner.account, { models: [names.transcription] });
  tenant = new Tenant(operator, owner.account, id, key);
});
afterAll(async () => {
  expect(await tenant.audit()).toMatchObject({ ok: true, open_holds: 0, held_usd: 0 });
});

const upload = (text: string): Asked => ({
  path: "/v1/audio/transcriptions",
  init: { method: "POST", headers: { "content-type": `multipart/form-data; boundary=${B}` }, body: bytesOf(text) },
});
const file = (content: string) => part('name="file"; filename="a.wav"', content);
const model = () => part('name="model"', names.transcription);
const disposition = (parameters: string) => `Content-Disposition: form-data; ${parameters}`;

async function expectRefused(text: string): Promise<void> {
  const before = (await tenant.charges()).length;
  const response = await ask(tenant, upload(text));
  const { error } = (await response.json()) as ErrorBody;
  expect([response.status, error.code, error.type]).toEqual([400, "invalid_request_error", "invalid_request_error"]);
  expect(await operator.sandbox.callsOf(callIdOf(response))).toEqual([]);
  expect(await tenant.charges()).toHaveLength(before);
}

describe("a short recording for the price and a long one for the service is refused", () => {
  const second = (parameters: string) => [
    part(`name="x"; ${parameters}; filename="b.mp3"`, LONG),
    part(`${parameters}; name="x"; filename="b.mp3"`, LONG),
  ];
  test.each<[string, () => string[]]>([
    ["two name parameters", () => second('name="file"')],
    ["name*", () => second("name*=utf-8''file")],
    ["spaces around =", () => second('name = "file"')],
    [
      "two dispositions",
      () => [
        rawPart(
          `${disposition('name="x"; filename="b.mp3"')}\r\n${disposition('name="file"; filename="b.mp3"')}`,
          LONG,
        ),
      ],
    ],
    ["a name inside a quoted file name", () => [part('filename="; name=x; a.mp3"; name="file"; size=1', LONG)]],
    ["a name behind an escaped quote", () => [part('filename="\\"; name="file"; x="; name="x"', LONG)]],
    [
      "a delimiter after a bare LF",
      () => [
        part('name="x"; filename="b"', `\n--${B}\r\n${disposition('name="file"; filename="b.mp3"')}\r\n\r\n${LONG}`),
      ],
    ],
    ["a second form behind the first", () => [`${END}${file(LONG)}`]],
  ])("%s", async (_, others) => {
    for (const other of others()) {
      await expectRefused(wire(model(), file(SHORT), other));
      await expectRefused(wire(model(), other, file(SHORT)));
    }
  });
});

describe("a model that the key may use for the gateway and another for the service is refused", () => {
  test.each<[string, () => string]>([
    ["two name parameters", () => part('name="x"; name="model"', dear)],
    ["name*", () => part("name=\"x\"; name*=utf-8''model", dear)],
    ["two dispositions", () => rawPart(`${disposition('name="x"')}\r\n${disposition('name="model"')}`, dear)],
    ["base64", () => rawPart(`${disposition('name="x"')}\r\nContent-Transfer-Encoding: base64`, btoa(dear))],
    ["a second field", () => part('name="model"', dear)],
    ["a file", () => part('name="model"; filename="a"', dear)],
    ["the model that it may not use alone", () => ""],
  ])("%s", async (what, other) => {
    if (what.endsWith("alone")) {
      const response = await ask(tenant, upload(wire(part('name="model"', dear), file(SHORT))));
      expect(response.status).toBe(403);
    } else await expectRefused(wire(model(), file(SHORT), other()));
  });
});

test("each form that readers are known to differ on is a 400 in plain words", async () => {
  for (const [, text] of SMUGGLED) {
    const response = await ask(tenant, upload(text));
    const { error } = (await response.json()) as ErrorBody;
    expect([response.status, error.code]).toEqual([400, "invalid_request_error"]);
    expect(error.message).toMatch(/^[A-Z`].{10,200}\.$/);
  }
  expect(await tenant.charges()).toEqual([]);
});

describe("what is heard is what is charged", () => {
  test.each<[string, () => string, number]>([
    ["a second", () => wire(model(), file(SHORT)), 1],
    ["half an hour", () => wire(file(LONG.repeat(30)), model()), 1_800],
    [
      "a longer one beside it, under another name",
      () => wire(model(), file(SHORT), part('name="x"; filename="a"', LONG)),
      1,
    ],
    [
      "a form inside the recording, of which all counts",
      () => wire(model(), file(`${SHORT}\r\n--${B.slice(1)}\r\n${file(LONG)}`.replaceAll(`\n--${B}`, "\n--x"))),
      6.002,
    ],
    [
      "unquoted names, as .NET writes them",
      () =>
        wire(part("name=model", names.transcription), part("name=file; filename=a.wav; filename*=utf-8''a.wav", SHORT)),
      1,
    ],
    [
      "a file name that holds another disposition",
      () => wire(model(), part('name="file"; filename="a\\"; name=\\"x.wav"', SHORT)),
      1,
    ],
  ])("%s", async (_, text, seconds) => {
    const response = await ask(tenant, upload(text()));
    expect([response.status, await response.json()]).toEqual([200, { text: expect.any(String) }]);
    const { chargedNanoUsd, executions } = await billOf(tenant, callIdOf(response));
    expect(executions.map(({ usage }) => usage)).toEqual([{ transcribed_seconds: seconds }]);
    expect(chargedNanoUsd).toBe(owedNanoUsd({ transcribed_seconds: seconds }));
  });
});
