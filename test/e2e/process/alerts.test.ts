/**
 * Alerts through the real process to a real https receiver, which verifies them with the package. Its certificate is
 * made here; the start script trusts it by `NODE_EXTRA_CA_CERTS` and finds the receiver's name in a table.
 */
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import type { ServerResponse } from "node:http";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Webhook } from "standardwebhooks";
import { afterAll, beforeAll, expect, test } from "vitest";
import { webhookOut } from "../../../scripts/webhook-out.ts";
import { eventually } from "../../support/eventually.ts";
import { freePorts } from "../../support/ports.ts";
import { ADMIN_TOKEN, TollgateProcess } from "../../support/process.ts";

const folder = mkdtempSync(join(tmpdir(), "tollgate-hooks-"));
const METRICS_TOKEN = "e2e-metrics-token-0123456789";
/** What a receiver may do that means ill. False: it does not at this path. */
function misbehave(path: string, response: ServerResponse): boolean {
  const forEver = (act: () => void) => {
    const timer = setInterval(act, 50);
    response.on("close", () => {
      clearInterval(timer);
      ended.add(path);
    });
  };
  if (path === "/hints") forEver(() => response.writeEarlyHints({ link: "</x>; rel=preload" }));
  else if (path === "/drip") {
    response.socket?.write("HTTP/1.1 200 OK\r\n");
    forEver(() => response.socket?.write("x-more: 1\r\n"));
  } else if (path === "/endless") {
    response.writeHead(200);
    forEver(() => response.write("x".repeat(65_536)));
  } else if (path === "/headers") response.socket?.write(`HTTP/1.1 200 OK\r\nx: ${"y".repeat(1_000_000)}`);
  else return path === "/silent";
  return true;
}
/** Paths whose endless answers were cut off. */
const ended = new Set<string>();

/** Costs about what it holds, so that 64 at once find room in what they cost together. */
const ONE_CALL = {
  model: "llama-7b",
  messages: [{ role: "user", content: "hello" }],
  max_tokens: 2_300,
  sandbox_output_tokens: 2_300,
};

interface Heard {
  readonly path: string;
  readonly id: string;
  readonly headers: Record<string, string>;
  readonly body: string;
}
const heard: Heard[] = [];
let receiver: Server;
let origin: string;
let gateway: TollgateProcess;

beforeAll(async () => {
  const [key, cert] = [join(folder, "key.pem"), join(folder, "cert.pem")];
  const made = spawnSync("openssl", [
    ..."req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=hooks.test".split(" "),
    ...["-addext", "subjectAltName=DNS:hooks.test", "-keyout", key, "-out", cert],
  ]);
  expect(made.status, String(made.stderr)).toBe(0);
  receiver = createServer({ key: readFileSync(key), cert: readFileSync(cert) }, async (request, response) => {
    let body = "";
    for await (const part of request) body += part;
    const headers = request.headers as Record<string, string>;
    heard.push({ path: request.url ?? "", id: headers["webhook-id"] ?? "", headers, body });
    if (misbehave(request.url ?? "", response)) return;
    response.writeHead(request.url === "/moved" ? 307 : 204, { location: "http://127.0.0.1:1/" }).end();
  });
  await new Promise<void>((resolve) => receiver.listen(0, "127.0.0.1", resolve));
  origin = `https://hooks.test:${(receiver.address() as AddressInfo).port}`;
  gateway = await TollgateProcess.start({
    env: {
      METRICS_TOKEN,
      NODE_EXTRA_CA_CERTS: cert,
      WEBHOOK_TEST_ORIGINS: origin,
      WEBHOOK_TEST_NAMES: JSON.stringify({
        "hooks.test": ["127.0.0.1"],
        "inside.example.com": ["93.184.216.34", "10.0.0.7"],
      }),
    },
  });
});
afterAll(async () => {
  await gateway?.stop();
  receiver?.closeAllConnections();
  receiver?.close();
  rmSync(folder, { recursive: true, force: true });
});

// biome-ignore lint/suspicious/noExplicitAny: tests look into answers by hand
async function ask(method: string, path: string, body?: object, token = ADMIN_TOKEN): Promise<any> {
  const response = await fetch(`${gateway.url}${path}`, {
    method,
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    ...(body && { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  expect(response.status, `${method} ${path}: ${text}`).toBeLessThan(300);
  return JSON.parse(text);
}
const balance = async (): Promise<number> => (await ask("GET", "/admin/accounts/hooked")).balance_usd;

test("an owner hears of 80 % of a budget and of a low balance, once under 64 parallel calls, verified by the package", async () => {
  await ask("POST", "/admin/accounts", { id: "hooked", name: "hooked", balance_usd: 1000 });
  const { key } = await ask("POST", "/admin/accounts/hooked/keys", { name: "owner", role: "owner" });
  await ask("POST", "/v1/chat/completions", ONE_CALL, key);
  const cost = await eventually("the first call's charge", async () => 1000 - (await balance()));
  await ask("PATCH", "/admin/accounts/hooked", {
    max_budget: (cost * 78).toFixed(9),
    low_balance_usd: (1000 - cost * 40).toFixed(9),
  });
  const events = ["budget.threshold", "balance.low"];
  const { secret } = await ask("POST", "/account/webhooks", { url: `${origin}/hook`, events }, key);
  await Promise.all(Array.from({ length: 63 }, () => ask("POST", "/v1/chat/completions", ONE_CALL, key)));
  const own = () => heard.filter(({ path }) => path === "/hook");
  await eventually("three alerts", () => new Set(own().map(({ id }) => id)).size >= 3, { withinMs: 20_000 });
  const alerts = own().map(
    ({ body, headers }) => new Webhook(secret).verify(body, headers) as { type: string; data: { percent?: number } },
  );
  expect(alerts.map(({ type, data }) => `${type} ${data.percent ?? ""}`).sort()).toEqual([
    "balance.low ",
    "budget.threshold 50",
    "budget.threshold 80",
  ]);
  expect(
    own()
      .map(({ body }) => body)
      .join(),
  ).not.toMatch(/cost|upstream|sandbox|hello/);

  const scraped = await fetch(`${gateway.url}/metrics`, { headers: { authorization: `Bearer ${METRICS_TOKEN}` } });
  expect(await scraped.text()).toMatch(
    /^tollgate_calls_total\{endpoint="chat.completions",model="llama-7b",status_class="2xx"/m,
  );
});

test("redirects are not followed, what drips or is silent ends after ten seconds, a name with a private address is refused", async () => {
  const tried = async (url: string) => {
    const { id } = await ask("POST", "/admin/webhooks", { url, events: ["balance.low"] });
    return ask("POST", `/admin/webhooks/${id}/test`);
  };
  const [moved, inside, endless, headers, ...slow] = await Promise.all([
    tried(`${origin}/moved`),
    tried("https://inside.example.com/"),
    ...["endless", "headers", "silent", "hints", "drip"].map((path) => tried(`${origin}/${path}`)),
  ]);
  expect(moved).toMatchObject({ ok: false, status: 307, problem: "redirect" });
  expect(endless).toMatchObject({ ok: true, status: 200 });
  expect(headers).toMatchObject({ ok: false, status: null, problem: "unreachable" });
  for (const one of slow) {
    expect(one).toMatchObject({ ok: false, status: null, problem: "timeout" });
    expect(one.latency_ms).toBeLessThan(15_000);
  }
  await eventually("what never ends is cut off", () =>
    ["/endless", "/hints", "/drip"].every((path) => ended.has(path)),
  );
  expect(inside).toMatchObject({ ok: false, status: null, problem: "private_address" });
});

test("the start script's door refuses every private address, and connects to none that it did not look at", async () => {
  const out = webhookOut("", {
    "a.example": ["127.0.0.1"],
    "b.example": ["::1"],
    "c.example": ["::ffff:10.0.0.1"],
    "d.example": ["fd00::1"],
    "e.example": ["169.254.169.254"],
  });
  for (const name of ["a", "b", "c", "d", "e"]) {
    const asked = { url: `https://${name}.example/`, headers: {}, body: "{}" };
    expect(await out(asked)).toEqual({ status: null, problem: "private_address" });
  }
});

test("the examples: a receiver that verifies, and a payment that is booked once", async () => {
  const [alertPort = 0, payPort = 0] = await freePorts(2);
  const secret = `whsec_${Buffer.from("0123456789abcdef01234567").toString("base64")}`;
  const run = (file: string, env: Record<string, string>) =>
    spawn(process.execPath, [`examples/${file}`], {
      env: { ...process.env, ...env },
      stdio: ["ignore", "pipe", "inherit"],
    });
  const programs = [
    run("webhook-receiver.ts", { PORT: String(alertPort), WEBHOOK_SECRET: secret }),
    run("top-up.ts", {
      PORT: String(payPort),
      PAYMENT_SECRET: secret,
      TOLLGATE_URL: gateway.url,
      TOLLGATE_TOKEN: ADMIN_TOKEN,
    }),
  ];
  try {
    await Promise.all(programs.map((one) => new Promise((resolve) => one.stdout?.once("data", resolve))));
    const post = async (port: number, body: string, by = secret) => {
      const at = new Date();
      const headers = {
        "webhook-id": "msg_1",
        "webhook-timestamp": String(Math.floor(at.getTime() / 1000)),
        "webhook-signature": new Webhook(by).sign("msg_1", at, body),
      };
      return (await fetch(`http://127.0.0.1:${port}/`, { method: "POST", headers, body })).status;
    };
    const wrong = `whsec_${Buffer.from("another secret of 24 byt").toString("base64")}`;
    expect(await post(alertPort, '{"type":"balance.low","data":{}}')).toBe(204);
    expect(await post(alertPort, '{"type":"balance.low","data":{}}', wrong)).toBe(401);
    await ask("POST", "/admin/accounts", { id: "payer", name: "payer" });
    const payment = { type: "payment.succeeded", data: { id: "pay_1", account: "payer", amount_usd: "12.50" } };
    const statuses = await Promise.all([1, 2, 3].map(() => post(payPort, JSON.stringify(payment))));
    expect(statuses).toEqual([204, 204, 204]);
    expect(await post(payPort, JSON.stringify(payment), wrong)).toBe(401);
    expect(await ask("GET", "/admin/accounts/payer")).toMatchObject({ balance_usd: 12.5 });
  } finally {
    for (const one of programs) one.kill();
  }
});
