/**
 * Large bodies and odd forms. In a process of its own, whose memory is measured: bodies over 1 MB are held to 48 MB in
 * an isolate, one of an account (docs/design.md, section 7).
 */
import { existsSync } from "node:fs";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { wav } from "../../support/audio.ts";
import { eventually } from "../../support/eventually.ts";
import { IN_FULL } from "../../support/in-full.ts";
import { forgetPeak, residentMb } from "../../support/memory.ts";
import { Operator } from "../../support/operator.ts";
import { TollgateProcess } from "../../support/process.ts";
import { RawClient } from "../../support/raw-client.ts";
import {
  type Asked,
  ask,
  askUntilTold,
  billOf,
  callIdOf,
  callOf,
  executionsOf,
  formTo,
  jsonTo,
  type Names,
  owedNanoUsd,
  serviceFor,
} from "../../support/service.ts";
import { allowedMs } from "../../support/slowness.ts";
import type { ErrorBody, Tenant } from "../../support/tenant.ts";

const MB = 1024 * 1024;
const TRANSCRIPTIONS = "/v1/audio/transcriptions";
let tollgate: TollgateProcess;
let operator: Operator;
let tenant: Tenant;
let names: Names;

beforeAll(async () => {
  tollgate = await TollgateProcess.start();
  operator = new Operator(tollgate);
  [tenant, names] = await newTenant();
});
afterAll(() => tollgate?.stop());
afterEach(async () => {
  expect(await tenant.audit()).toMatchObject({ ok: true, open_holds: 0, held_usd: 0 });
});

async function newTenant(): Promise<[Tenant, Names]> {
  const made = await operator.tenant({ balance_usd: 50 });
  return [made, await serviceFor(operator, made)];
}

/** A recording of just so many bytes: zeros behind 16 bits at 24 kHz. */
function recordingOf(bytes: number): Uint8Array<ArrayBuffer> {
  const ms = Math.floor((bytes - 100) / 48);
  const after = new Uint8Array(bytes - 44 - ms * 48);
  return wav({ ms, after });
}

async function expectRefused(asked: Asked, status: number, code: string, param?: string | null): Promise<void> {
  const response = await askUntilTold(tenant, asked);
  const { error } = (await response.json()) as ErrorBody;
  expect([response.status, error.code]).toEqual([status, code]);
  expect(Object.keys(error).sort()).toEqual(["code", "message", "param", "type"]);
  if (param !== undefined) expect(error.param).toBe(param);
  expect(await operator.sandbox.callsOf(callIdOf(response))).toEqual([]);
}

describe("the size of an upload", () => {
  test("a file of 25 MB is heard, one byte more is 413", async () => {
    const response = await ask(tenant, callOf("transcription", names.transcription, { file: recordingOf(25 * MB) }));
    expect([response.status, await response.json()]).toEqual([200, { text: expect.any(String) }]);
    const { chargedNanoUsd, executions } = await billOf(tenant, callIdOf(response));
    expect(chargedNanoUsd).toBe(owedNanoUsd(executions[0]?.usage ?? {}));
    const larger = callOf("transcription", names.transcription, { file: recordingOf(25 * MB + 1) });
    await expectRefused(larger, 413, "request_too_large");
  });

  test("a form over 26 MB is 413, by its length and without one", async () => {
    const asked = formTo(TRANSCRIPTIONS, { model: names.transcription, file: new Uint8Array(26 * MB) });
    await expectRefused(asked, 413, "request_too_large");
    const streamed = () => {
      let sent = 0;
      const body = new ReadableStream<Uint8Array>({
        pull(controller) {
          sent += MB;
          controller.enqueue(new Uint8Array(MB));
          if (sent > 27 * MB) controller.close();
        },
      });
      const headers = { "content-type": "multipart/form-data; boundary=x" };
      return tenant.fetch(TRANSCRIPTIONS, { ...{ method: "POST", body, headers }, duplex: "half" } as RequestInit);
    };
    // The answer comes before all is sent: a sender may find the connection closed, and asks again.
    const response = await eventually("an answer", streamed, { withinMs: 30_000 });
    expect(response.status).toBe(413);
  });

  test("a vision request of 20 MB passes, a byte more is 413", async () => {
    expect((await ask(tenant, vision(names.chat, 20 * MB))).status).toBe(200);
    await expectRefused(vision(names.chat, 20 * MB + 1), 413, "request_too_large");
  });

  test("without a length, a large body passes as it does with one", async () => {
    const whole = vision(names.chat, 3 * MB);
    const bytes = new TextEncoder().encode(String(whole.init.body));
    let at = 0;
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        controller.enqueue(bytes.subarray(at, at + 100_000));
        at += 100_000;
        if (at >= bytes.length) controller.close();
      },
    });
    const init = { ...whole.init, body, duplex: "half" } as RequestInit;
    expect((await tenant.fetch(whole.path, init)).status).toBe(200);
  });
});

/** A chat with one picture, of just so many bytes in all. */
function vision(model: string, bytes: number): Asked {
  const bodyOf = (data: string) => ({
    model,
    max_tokens: 5,
    messages: [
      {
        role: "user",
        content: [
          { type: "text", text: "What is this?" },
          { type: "image_url", image_url: { url: `data:image/png;base64,${data}` } },
        ],
      },
    ],
  });
  const rest = JSON.stringify(bodyOf("")).length;
  return jsonTo("/v1/chat/completions", bodyOf("A".repeat(bytes - rest)));
}

/** A form as it stands on the wire. */
const BOUNDARY = "wire-boundary";
const part = (head: string, content: string) =>
  `--${BOUNDARY}\r\nContent-Disposition: form-data; ${head}\r\n\r\n${content}\r\n`;
const END = `--${BOUNDARY}--\r\n`;
function wire(body: string, contentType = `multipart/form-data; boundary=${BOUNDARY}`): Asked {
  return { path: TRANSCRIPTIONS, init: { method: "POST", headers: { "content-type": contentType }, body } };
}
const sound = Buffer.from(wav({ ms: 1_000 })).toString("latin1");
const latin1 = (text: string) => Buffer.from(text, "latin1");
const filePart = (fileName = "a.wav") => part(`name="file"; filename="${fileName}"`, sound);
const modelPart = () => part('name="model"', names.transcription);
const onWire = (...parts: string[]): Asked => {
  const asked = wire("");
  return { ...asked, init: { ...asked.init, body: latin1(parts.join("")) } };
};

describe("odd forms are correct or a clear 4xx", () => {
  test.each<[string, () => Asked, string | null]>([
    ["no boundary", () => wire(modelPart() + END, "multipart/form-data"), null],
    ["an empty boundary", () => wire(modelPart() + END, "multipart/form-data; boundary="), null],
    ["a boundary that is not in it", () => wire(modelPart() + END, "multipart/form-data; boundary=other"), null],
    ["nothing", () => wire(""), null],
    ["two models", () => onWire(modelPart(), filePart(), modelPart(), END), "model"],
    ["two files", () => onWire(modelPart(), filePart(), filePart(), END), "file"],
    ["no model", () => onWire(filePart(), END), "model"],
    ["no file", () => onWire(modelPart(), END), "file"],
    ["an empty file", () => onWire(modelPart(), part('name="file"; filename="a.wav"', ""), END), "file"],
    ["a model that is a file", () => onWire(part('name="model"; filename="m"', "x"), filePart(), END), "model"],
    ["10,000 parts", () => onWire(modelPart(), ...Array<string>(10_000).fill(part('name="x"', "1")), END), null],
    ["a part without a name", () => onWire(modelPart(), filePart(), part("", "x"), END), null],
    ["cut in the file", () => onWire(modelPart(), filePart().slice(0, -5_000)), null],
    ["cut before the end", () => onWire(modelPart(), filePart()), null],
    ["words before", () => onWire("before\r\n", modelPart(), filePart(), END), null],
    ["words behind", () => onWire(modelPart(), filePart(), END, "behind"), null],
    ["headers without an end", () => onWire(modelPart(), `--${BOUNDARY}\r\nx: ${"y".repeat(20_000)}`, END), null],
  ])("%s", async (_what, asked, param) => expectRefused(asked(), 400, "invalid_request_error", param));

  test.each<[string, () => Asked]>([
    ["model first", () => onWire(modelPart(), filePart(), END)],
    ["file first", () => onWire(filePart(), modelPart(), END)],
    ["a file name that climbs", () => onWire(modelPart(), filePart("../../etc/passwd.wav"), END)],
    ["a file name with quotes and line ends", () => onWire(modelPart(), filePart('a\\"b%0d%0a.wav'), END)],
    ["a quoted boundary", () => ({ ...onWire(modelPart(), filePart(), END), ...quoted() })],
  ])("%s is heard", async (_what, asked) => {
    const response = await ask(tenant, asked());
    expect([response.status, await response.json()]).toEqual([200, { text: expect.any(String) }]);
    const [execution] = await executionsOf(tenant, callIdOf(response));
    expect(execution?.usage).toEqual({ transcribed_seconds: 1 });
  });

  const quoted = (): Pick<Asked, "init"> => {
    const { init } = onWire(modelPart(), filePart(), END);
    return { init: { ...init, headers: { "content-type": `multipart/form-data; boundary="${BOUNDARY}"` } } };
  };

  test("a sender that leaves in the middle of its upload leaves nothing behind", async () => {
    const head = [
      `POST ${TRANSCRIPTIONS} HTTP/1.1`,
      "host: tollgate",
      `authorization: Bearer ${tenant.key}`,
      `content-type: multipart/form-data; boundary=${BOUNDARY}`,
      `content-length: ${20 * MB}`,
    ];
    const before = (await operator.sandbox.allCalls()).length;
    const client = new RawClient(operator.url, `${head.join("\r\n")}\r\n\r\n${modelPart()}${"x".repeat(2 * MB)}`);
    await new Promise((resolve) => setTimeout(resolve, 300));
    client.reset();
    // Its place among the large bodies is free: the account's next one is not kept waiting.
    const started = Date.now();
    expect((await ask(tenant, vision(names.chat, 2 * MB))).status).toBe(200);
    expect(Date.now() - started).toBeLessThan(allowedMs(4_000));
    expect(await operator.sandbox.allCalls()).toHaveLength(before + 1);
  });
});

describe("large bodies at once", () => {
  const ACCOUNTS = IN_FULL ? 5 : 3;
  test(`uploads of 25 and 20 MB from each of ${ACCOUNTS} accounts end in 200 or in 503 with retry-after`, async () => {
    const tenants = await Promise.all(Array.from({ length: ACCOUNTS }, newTenant));
    const pid = tollgate.workerdPid();
    const measured = existsSync(`/proc/${pid}/clear_refs`);
    if (measured) forgetPeak(pid);
    const before = measured ? residentMb(pid).now : 0;
    const file = recordingOf(25 * MB);
    const started = Date.now();
    const answers = await Promise.all(
      tenants.flatMap(([each, { chat, transcription }]) =>
        [callOf("transcription", transcription, { file }), vision(chat, 20 * MB)].map(async (asked) => {
          const response = await ask(each, asked);
          const body = (await response.json()) as ErrorBody;
          return { response, body, ms: Date.now() - started };
        }),
      ),
    );
    const statuses = answers.map(({ response }) => response.status).sort();
    if (measured) {
      const { peak, now } = residentMb(pid);
      const times = answers.map(({ ms }) => ms).sort((a, b) => a - b);
      console.log(
        `${statuses.length} uploads at once: ${statuses.join(" ")}; ${times[0]} to ${times.at(-1)} ms; ` +
          `workerd ${before} MB before, ${peak} MB at most, ${now} MB after`,
      );
    }
    expect(new Set([...statuses, 200, 503])).toEqual(new Set([200, 503]));
    expect(statuses.filter((status) => status === 200).length).toBeGreaterThanOrEqual(2);
    for (const { response, body } of answers.filter(({ response: { status } }) => status === 503)) {
      expect(Number(response.headers.get("retry-after"))).toBeGreaterThan(0);
      expect(body.error).toMatchObject({ code: "overloaded", type: "server_error" });
    }
    for (const [each] of tenants) {
      const audit = await eventually("nothing is held", async () => {
        const found = await each.audit();
        return found.open_holds === 0 && found;
      });
      expect(audit).toMatchObject({ ok: true, problems: [] });
    }
    const charged = (await Promise.all(tenants.map(([each]) => each.charges()))).flat();
    expect(charged.map(({ call_id }) => call_id).sort()).toEqual(
      answers
        .filter(({ response }) => response.ok)
        .map(({ response }) => callIdOf(response))
        .sort(),
    );
  });

  test("an account's second waits for its first; small calls and other accounts do not", async () => {
    const [other, theirs] = await newTenant();
    await operator.sandbox.faultAt({ path: "/v1/audio/transcriptions" }, { fault: "slow", ms: 2_200, times: 1 });
    const file = recordingOf(2 * MB);
    const started = Date.now();
    const since = async (asked: Promise<Response>) => {
      const response = await asked;
      await response.arrayBuffer();
      return [response.status, Date.now() - started] as const;
    };
    const first = since(ask(tenant, callOf("transcription", names.transcription, { file })));
    await new Promise((resolve) => setTimeout(resolve, 300));
    const second = since(ask(tenant, vision(names.chat, 2 * MB)));
    const small = since(ask(tenant, callOf("chat", names.chat)));
    const others = since(ask(other, vision(theirs.chat, 2 * MB)));
    const [[a, firstMs], [b, secondMs], [c, smallMs], [d, othersMs]] = await Promise.all([
      first,
      second,
      small,
      others,
    ]);
    expect([a, b, c, d]).toEqual([200, 200, 200, 200]);
    expect(secondMs).toBeGreaterThan(firstMs - 50);
    expect(Math.max(smallMs, othersMs)).toBeLessThan(firstMs);
  });

  test("one that waits for longer than 5 s is 503, and is not sent", async () => {
    await operator.sandbox.faultAt({ path: "/v1/audio/transcriptions" }, { fault: "slow", ms: 9_000, times: 1 });
    const first = ask(tenant, callOf("transcription", names.transcription, { file: recordingOf(2 * MB) }));
    await new Promise((resolve) => setTimeout(resolve, 300));
    const second = await ask(tenant, vision(names.chat, 20 * MB));
    expect([second.status, second.headers.get("retry-after")]).toEqual([503, "5"]);
    expect(((await second.json()) as ErrorBody).error.code).toBe("overloaded");
    expect((await first).status).toBe(200);
    expect(await operator.sandbox.callsOf(callIdOf(second))).toEqual([]);
    expect((await ask(tenant, vision(names.chat, 2 * MB))).status).toBe(200);
  });
});
