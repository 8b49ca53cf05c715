/** The command line against the real process: what each command shows as a table and as JSON, and how it ends. */
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { chmodSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { COMMANDS } from "../../../cli/commands/index.ts";
import { Cli } from "../../support/cli.ts";
import { eventually } from "../../support/eventually.ts";
import { unique } from "../../support/operator.ts";
import { ADMIN_TOKEN } from "../../support/process.ts";
import type { Tenant } from "../../support/tenant.ts";
import { world } from "../../support/world.ts";

const { url, sandboxUrl, operator } = world();
const cli = new Cli(url);
const root = join(import.meta.dirname, "../../..");

let tenant: Tenant;
/** Of the sandbox and of the demo's price book. */
const model = "llama-7b";
let upstream: string;
/** The id of a call that was served, and of one that was refused. */
let call: string;

const AT = "2037-01-01T00:00:00.000Z";
const body = (called: string) => ({ model: called, messages: [{ role: "user", content: "hi" }] });

beforeAll(async () => {
  upstream = await operator.upstream(sandboxUrl);
  tenant = await operator.tenant({ name: "Evil \u001b]0;owned\u0007 =1+1" });
  const answer = await tenant.post(body(model));
  expect(answer.status).toBe(200);
  call = answer.headers.get("x-request-id") ?? "";
  await eventually("the call is told", async () => (await operator.ask("GET", `/calls/${call}`)).status === 200);
});

/** Both forms end well; gives the table and what JSON showed. */
async function both<Body = Record<string, unknown>>(...args: string[]): Promise<{ text: string; json: Body }> {
  const shown = await cli.run(args);
  expect({ args, code: shown.code, err: shown.err }).toEqual({ args, code: 0, err: "" });
  return { text: shown.out, json: await cli.json<Body>(args) };
}
type Rows = { data: Record<string, unknown>[] };

describe("as a process", () => {
  test("npx finds it, builds it at its first use, and it says how it ended", async () => {
    const help = await cli.process(["--help"]);
    expect(help).toMatchObject({ code: 0, err: "" });
    expect(help.out).toContain("account import <file>");
    const shown = await cli.process(["version", "--json"]);
    expect(shown).toMatchObject({ code: 0, err: "" });
    expect(JSON.parse(shown.out)).toMatchObject({ cli: "0.2.0", gateway: "0.2.0", url });
    const npx = await new Promise<string>((resolve, reject) => {
      const env = { ...process.env, TOLLGATE_URL: url, npm_config_offline: "true" };
      execFile("npx", ["--no-install", "tollgate", "version"], { cwd: root, env }, (error, out) =>
        error ? reject(error) : resolve(out),
      );
    });
    expect(npx).toContain("command line  0.2.0");
  });
});

describe("what it shows", () => {
  test("status, version and doctor", async () => {
    const { text, json } = await both<{ accounts: number; upstreams: unknown[] }>("status");
    expect(text).toContain("revenue USD");
    expect(json.accounts).toBeGreaterThan(0);
    expect(json.upstreams).toEqual(expect.arrayContaining([expect.objectContaining({ upstream })]));
    expect((await both("version")).json).toMatchObject({ cli: "0.2.0", gateway: "0.2.0" });
    // Other tests leave upstreams that fail and prices below cost.
    const { code, out } = await cli.run(["doctor", "--json"]);
    const { data } = JSON.parse(out) as { data: { check: string; verdict: string; finding: string }[] };
    expect(data.map(({ check }) => check)).toEqual(
      expect.arrayContaining(["gateway", "clock", "token", "prices", "margins"]),
    );
    expect(code).toBe(data.some(({ verdict }) => verdict === "wrong") ? 1 : 0);
  });

  test("calls, why and top", async () => {
    const calls = await both<Rows>("calls", "--account", tenant.account, "--since", "1h");
    expect(calls.text).toContain(call);
    expect(calls.json.data).toEqual([expect.objectContaining({ id: call, status: 200 })]);
    const why = await both("why", call);
    expect(why.text).toMatch(/answered/);
    expect(why.json).toMatchObject({ id: call, outcome: "completed", advice: null });
    const limited = await operator.tenant({ rpm_limit: 0 });
    expect((await limited.post(body(model))).status).toBe(429);
    const asked = ["why", "--account", limited.account, "--status", "429"];
    await eventually("the refusal is told", async () => (await cli.json<Rows>(asked)).data.length > 0);
    const many = await both<{ data: object[]; refusals: object[]; full_limits: object[] }>(...asked);
    expect(many.text).toContain("rpm_limit of the account");
    expect(many.json.data).toEqual([expect.objectContaining({ reason: "rate_limit", status: 429, calls: 1 })]);
    expect(many.json.full_limits).toEqual([expect.objectContaining({ level: "account", limit: "rpm_limit", left: 0 })]);
    const top = await both<Rows>("top", "--by", "account,key", "--since", "24h", "--account", tenant.account);
    expect(top.text).toContain(tenant.keyId);
    expect(top.text.split("\n")[0]).toMatch(/^ACCOUNT +ACCOUNT_NAME +KEY +KEY_NAME +CALLS /);
    expect(top.text).not.toContain("P95");
    expect(top.json.data).toEqual([
      expect.objectContaining({ account: tenant.account, key: tenant.keyId, key_name: "e2e", calls: 1 }),
    ]);
    const byModel = await both<{ data: { model: string; latency: { p95: number } | null }[] }>("top", "--by", "model");
    expect(byModel.text.split("\n")[0]).toMatch(/LATENCY_P50 +LATENCY_P95 +LATENCY_P99 +FIRST_BYTE_P50/);
    // Other files' models are among those that spent the most.
    expect(byModel.json.data.some(({ latency }) => (latency?.p95 ?? 0) > 0)).toBe(true);
  });

  test("calls --follow shows each call once, as it ends, in each form", async () => {
    const follow = async (form: "table" | "json" | "csv") => {
      const caller = await operator.tenant();
      const called = async () => {
        const id = (await caller.post(body(model))).headers.get("x-request-id") ?? "";
        await eventually("the call is told", async () => (await operator.ask("GET", `/calls/${id}`)).status === 200);
        return id;
      };
      const before = await called();
      const seen: string[] = [];
      let rounds = 0;
      const pause = async () => {
        if (++rounds > 3) throw new Error("Ctrl-C");
        if (rounds < 3) seen.push(await called());
      };
      const asked = ["calls", "--follow", "--account", caller.account, ...(form === "table" ? [] : [`--${form}`])];
      const lines = (await cli.run(asked, { pause })).out.trimEnd().split(/\r?\n/);
      expect(lines.join()).not.toContain(before);
      if (form === "json") return expect(lines.map((line) => JSON.parse(line).id)).toEqual(seen);
      expect(lines[0]).toMatch(/^ended/i);
      expect(lines.slice(1).map((line) => seen.find((id) => line.includes(id)))).toEqual(seen);
    };
    await Promise.all([follow("table"), follow("json"), follow("csv")]);
  });

  test("prove recomputes a call, and a line of the ledger", async () => {
    const byCall = await both<{ agrees: boolean; sum_usd: string; entries: { id: number }[] }>("prove", call);
    expect(byCall.text).toContain("agrees");
    expect(byCall.json.agrees).toBe(true);
    const [charge] = await operator.ledger(tenant.account);
    expect(Number(byCall.json.sum_usd)).toBe(-(charge?.amount_usd ?? 0));
    const byLine = await both("prove", `${tenant.account}:${byCall.json.entries[0]?.id}`);
    expect(byLine.json).toMatchObject({ call, agrees: true });
    expect(await cli.run(["prove", `${tenant.account}:1`])).toMatchObject({ code: 2 });
    expect(await cli.run(["prove", `${tenant.account}:999`])).toMatchObject({ code: 3 });
    expect(await cli.run(["prove", "no-such-call"])).toMatchObject({ code: 3 });
  });

  test("accounts, ledger, audit and statements, with a hostile name escaped", async () => {
    const shown = await both("account", "show", tenant.account);
    expect(shown.text).toContain("Evil \\u{1b}]0;owned\\u{7} =1+1");
    expect(shown.json.name).toBe("Evil \u001b]0;owned\u0007 =1+1");
    expect((await cli.run(["account", "show", tenant.account, "--json"])).out).not.toContain("\u001b");
    expect((await both<Rows>("account", "list")).text).toContain(tenant.account);
    expect((await both<Rows>("account", "ledger", tenant.account)).json.data).toHaveLength(2);
    expect((await both("account", "audit", tenant.account)).json.ok).toBe(true);
    const { text, json } = await both<{ closing_usd: number }>("statement", tenant.account);
    expect(text).toContain("closing");
    expect(json.closing_usd).toBeLessThan(1);
    const csv = await cli.run(["statement", "--all", "--csv"]);
    expect(csv.out.split("\r\n")[0]).toBe("account,month,line,at,name,calls,amount_usd");
    expect(csv.out).toContain(`${tenant.account},`);
    expect(await cli.run(["statement", tenant.account, "--csv", "--month", "2026-13"])).toMatchObject({
      code: 2,
      out: "",
    });
    expect(await cli.run(["statement"])).toMatchObject({ code: 2 });
  });

  test("upstreams and prices", async () => {
    expect((await both<Rows>("upstream", "list")).text).toContain(upstream);
    expect((await both("upstream", "health", upstream)).json.upstream).toBe(upstream);
    expect((await both("upstream", "check", upstream)).json.ok).toBe(true);
    const priced = await operator.model(unique("cli-model"), { upstream });
    expect((await both<Rows>("price", "list", "--models", `${priced}*`)).json.data).toHaveLength(1);
    expect((await both("price", "show", priced)).text).toContain("holds");
    const dead = await operator.upstream("http://127.0.0.1:9");
    expect(await cli.run(["upstream", "check", dead])).toMatchObject({ code: 1 });
  });

  test("CSV has the same rows", async () => {
    const { code, out } = await cli.run(["calls", "--account", tenant.account, "--csv"]);
    expect(code).toBe(0);
    const [head, line] = out.split("\r\n");
    expect(head).toBe("ended,id,account,key,model,upstream,status,outcome,reason,charged_usd,ms,first_byte_ms");
    expect(line).toContain(`,${call},${tenant.account},${tenant.keyId},${model},`);
  });
});

describe("what it changes", () => {
  test("a credit is asked for, shown by a dry run, and booked once", async () => {
    const { account } = await operator.tenant({ balance_usd: 1 });
    const balance = async () =>
      (await operator.call<{ balance_usd: number }>("GET", `/accounts/${account}`)).balance_usd;
    const line = ["credit", account, "0.000000001", "--reference", "r1"];
    expect(await cli.run(line)).toMatchObject({ code: 2 });
    expect(await cli.run(line, { typed: ["n"] })).toMatchObject({ code: 4, err: "tollgate: Nothing was changed.\n" });
    expect(await cli.run([...line, "--dry-run"])).toMatchObject({ code: 0 });
    expect(await balance()).toBe(1);
    expect(await cli.run(line, { typed: ["y"] })).toMatchObject({ code: 0 });
    expect(await cli.json([...line, "--yes"])).toMatchObject({ amount_usd: 1e-9, balance_usd: 1.000000001 });
    expect(await balance()).toBe(1.000000001);
    expect(await cli.run(["credit", account, "2", "--reference", "r1", "--yes"])).toMatchObject({ code: 4 });
    expect(await cli.run(["credit", account, "-0.5", "--kind", "refund", "--reference", "r2", "--yes"])).toMatchObject({
      code: 0,
    });
    expect(await cli.run(["credit", account, "0.0000000001", "--reference", "r3", "--yes"])).toMatchObject({ code: 2 });
    expect(await cli.run(["credit", "no-such-account", "1", "--reference", "r", "--yes"])).toMatchObject({ code: 3 });
    expect(await balance()).toBe(0.500000001);
  });

  test("limits and budgets are shown and set, of an account and a team", async () => {
    const { account } = await operator.tenant();
    const team = await operator.call<{ id: string }>("POST", `/accounts/${account}/teams`, { name: "research" });
    expect(
      await cli.run(["limits", account, "--rpm", "60", "--budget", "12.5", "--window", "month", "--yes"]),
    ).toMatchObject({ code: 0 });
    expect(await cli.run(["limits", account, "--team", team.id, "--budget", "3", "--yes"])).toMatchObject({ code: 0 });
    const { text, json } = await both<{ data: { level: string; limits: unknown[] }[] }>("limits", account);
    expect(text).toMatch(/account .*max_budget +12\.50/);
    expect(json.data.find(({ level }) => level === "team")?.limits).toEqual([expect.objectContaining({ allowed: 3 })]);
    expect(await cli.run(["limits", account, "--rpm", "none", "--yes"])).toMatchObject({ code: 0 });
    expect(await operator.call("GET", `/accounts/${account}`)).toMatchObject({ rpm_limit: null, max_budget: 12.5 });
    expect(await cli.run(["limits", account, "--rpm", "many", "--yes"])).toMatchObject({ code: 2 });
    expect((await both<Rows>("team", "list", account)).json.data).toHaveLength(1);
    expect(await cli.run(["account", "block", account, "--yes"])).toMatchObject({ code: 0 });
    expect(await operator.call("GET", `/accounts/${account}`)).toMatchObject({ blocked: true });
    expect(await cli.run(["account", "unblock", account, "--yes"])).toMatchObject({ code: 0 });
  });

  test("keys are made, rotated and revoked; a secret goes to a file of mode 0600 and nowhere else", async () => {
    const { account } = await operator.tenant();
    const file = join(cli.home, "keys.csv");
    expect(await cli.run(["key", "create", account, "ci"])).toMatchObject({ code: 2 });
    const made = await cli.run(["key", "create", account, "ci", "--out", file, "--json"]);
    expect(made).toMatchObject({ code: 0, err: "" });
    expect(made.out).not.toContain("sk-tg-");
    const { id } = JSON.parse(made.out) as { id: string };
    expect(statSync(file).mode & 0o777).toBe(0o600);
    const secrets = () => [...readFileSync(file, "utf8").matchAll(/sk-tg-\w+/g)].map(([secret]) => secret);
    const works = async (secret = "") =>
      (await fetch(`${url}/v1/models`, { headers: { authorization: `Bearer ${secret}` } })).status;
    expect(await works(secrets()[0])).toBe(200);
    expect(await cli.run(["key", "rotate", account, id, "--out", file, "--yes"])).toMatchObject({ code: 0 });
    expect([await works(secrets()[0]), await works(secrets()[1])]).toEqual([401, 200]);
    expect((await both<Rows>("key", "list", account)).json.data).toHaveLength(2);
    const found = await cli.run(["key", "find", "--json"], { input: `${secrets()[1]}\n` });
    expect(JSON.parse(found.out)).toMatchObject({ data: [{ account, secret: "current", key: { id } }] });
    expect(found.out).not.toContain(secrets()[1]);
    const byEnd = await both<Rows>("key", "find", secrets()[0]?.slice(-4) ?? "");
    expect(byEnd.json.data).toEqual(expect.arrayContaining([expect.objectContaining({ account, secret: "earlier" })]));
    expect(await cli.run(["key", "find", secrets()[1] ?? ""])).toMatchObject({ code: 2, out: "" });
    expect(await cli.run(["key", "find"], { input: "sk-tg-nobody" })).toMatchObject({ code: 3 });
    expect((await both("key", "activity", id, "--account", account)).json).toMatchObject({
      account,
      key: id,
      calls: 0,
    });
    expect(await cli.run(["key", "block", account, id, "--yes"])).toMatchObject({ code: 0 });
    expect(await works(secrets()[1])).toBe(401);
    expect(await cli.run(["key", "unblock", account, id, "--yes"])).toMatchObject({ code: 0 });
    expect(await works(secrets()[1])).toBe(200);
    expect(await cli.run(["key", "revoke", account, id, "--yes"])).toMatchObject({ code: 0 });
    expect((await both("key", "revoke", account, id)).text).toContain("already revoked");
    // A part of a path that a URL would take for the folder above.
    expect(await cli.run(["key", "revoke", account, "..", "--yes"])).toMatchObject({ code: 2 });
    expect(await operator.call("GET", `/accounts/${account}`)).toMatchObject({ deleted_at: null });
    chmodSync(file, 0o644);
    expect(await cli.run(["key", "create", account, "x", "--out", file])).toMatchObject({ code: 2 });
    symlinkSync(file, join(cli.home, "link.csv"));
    expect((await cli.run(["key", "create", account, "x", "--out", join(cli.home, "link.csv")])).err).toContain(
      "symbolic link",
    );
    expect((await cli.json<Rows>(["key", "list", account])).data).toHaveLength(1);
  });

  test("prices are raised by dated rows, once, and taken back", async () => {
    const priced = await operator.model(unique("raise"));
    const line = ["price", "raise", "--percent", "10", "--from", AT, "--models", `${priced.slice(0, -2)}*`];
    expect(await cli.run(line)).toMatchObject({ code: 2 });
    expect((await cli.run([...line, "--dry-run"])).out).toMatch(/1\.00 +1\.10/);
    expect(await cli.json([...line, "--yes"])).toMatchObject({
      from: AT,
      data: expect.arrayContaining([expect.objectContaining({ is_usd: "1.00", will_be_usd: "1.10" })]),
    });
    expect((await cli.run([...line, "--yes"])).out).toContain("Nothing to change");
    const book = await operator.call<{ history: { from: string; prices: object }[] }>("GET", `/models/${priced}`);
    expect(book.history).toHaveLength(2);
    expect(book.history[0]).toMatchObject({ from: AT, prices: { input_tokens: { cost_usd: 0.5, price_usd: 1.1 } } });
    expect(await cli.run(["price", "withdraw", priced, "--from", AT, "--yes"])).toMatchObject({ code: 0 });
    expect(await cli.run(["price", "withdraw", priced, "--from", AT, "--yes"])).toMatchObject({ code: 3 });
    const past = ["price", "raise", "--percent", "10", "--from", "2020-01-01", "--models", priced, "--yes"];
    expect(await cli.run(past)).toMatchObject({ code: 2 });
    expect(await cli.run([...line.slice(0, -1), "no-such-*"])).toMatchObject({ code: 3 });
  });

  test("an upstream is drained in its aliases and taken in again, but never the last target", async () => {
    const [one, two] = [await operator.upstream(sandboxUrl), await operator.upstream(sandboxUrl)];
    const alias = unique("alias");
    const target = (id: string) => ({ upstream: id, model });
    await operator.call("PUT", `/aliases/${alias}`, { targets: [target(one), target(two)] });
    const drained = async () =>
      (await operator.call<{ targets: { drain: boolean }[] }>("GET", `/aliases/${alias}`)).targets.map(
        ({ drain }) => drain,
      );
    expect((await cli.run(["upstream", "drain", one, "--dry-run"])).out).toContain(alias);
    expect(await drained()).toEqual([false, false]);
    expect(await cli.run(["upstream", "drain", one, "--yes"])).toMatchObject({ code: 0 });
    expect(await drained()).toEqual([true, false]);
    expect(await cli.run(["upstream", "drain", two, "--yes"])).toMatchObject({ code: 4 });
    expect(await cli.run(["upstream", "undrain", one, "--yes"])).toMatchObject({ code: 0 });
    expect(await drained()).toEqual([false, false]);
  });

  test("operators get tokens and roles, and a role that may not is refused", async () => {
    const file = join(cli.home, "operators.csv");
    const made = await cli.json<{ id: string }>(["operator", "create", "Ada", "read", "--out", file]);
    const token = /tg-op-\w+/.exec(readFileSync(file, "utf8"))?.[0] ?? "";
    const env = { TOLLGATE_TOKEN: token };
    expect(await cli.run(["account", "list"], { env })).toMatchObject({ code: 0 });
    const refused = await cli.run(["credit", tenant.account, "1", "--reference", "r", "--yes"], { env });
    expect(refused).toMatchObject({ code: 4 });
    expect(await cli.run(["operator", "role", made.id, "finance", "--yes"])).toMatchObject({ code: 0 });
    expect((await cli.json(["status"], { env })).upstreams).toBeNull();
    expect((await both<Rows>("operator", "list")).text).toContain("Ada");
    expect((await both<Rows>("events", "--action", "createOperator")).text).toContain("createOperator");
    expect(await cli.run(["operator", "revoke", made.id, "--yes"])).toMatchObject({ code: 0 });
    expect(await cli.run(["account", "list"], { env })).toMatchObject({ code: 4 });
  });
});

describe("alerts", () => {
  test("webhooks are made, changed and deleted, with a secret in a file; what happened is listed", async () => {
    const file = join(cli.home, "webhooks.csv");
    const url = "https://hooks.example.com/cli";
    expect(await cli.run(["webhook", "create", url, "key.created"])).toMatchObject({ code: 2 });
    expect(await cli.run(["webhook", "create", url, "key.lost", "--out", file])).toMatchObject({ code: 2 });
    expect(await cli.run(["webhook", "create", "https://127.0.0.1/", "key.created", "--out", file])).toMatchObject({
      code: 2,
    });
    const { id } = await cli.json<{ id: string }>([
      "webhook",
      "create",
      url,
      "balance.empty,audit.failed",
      "--out",
      file,
    ]);
    expect(await cli.run(["webhook", "rotate", id, "--out", file, "--yes"])).toMatchObject({ code: 0 });
    expect(readFileSync(file, "utf8").match(/whsec_/g)).toHaveLength(2);
    expect((await both<Rows>("webhook", "list")).text).toContain(url);
    const changed = await cli.json<{ enabled: boolean }>(["webhook", "disable", id, "--yes"]);
    expect(changed.enabled).toBe(false);
    expect(await cli.run(["webhook", "enable", id, "--yes"])).toMatchObject({ code: 0 });
    expect(await cli.run(["webhook", "deliveries", id, "--state", "failed"])).toMatchObject({ code: 0 });
    expect(await cli.run(["webhook", "resend", id, "evt_none"])).toMatchObject({ code: 3 });
    expect(await cli.run(["webhook", "delete", id, "--yes"])).toMatchObject({ code: 0 });
    expect(await cli.run(["webhook", "test", id])).toMatchObject({ code: 3 });
    await eventually("the tenant's key is told of", async () =>
      (await cli.run(["alerts", "--account", tenant.account, "--type", "key.created"])).out.includes("key.created"),
    );
  });
});

/** A server that answers anything. */
async function answering(answer: Parameters<typeof createServer>[1]): Promise<{ at: string; server: Server }> {
  const server = createServer({}, answer);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { at: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, server };
}

describe("leaving", () => {
  const read = (folder: string, name: string) => readFileSync(join(folder, name), "utf8");

  test("export writes everything of an account into one new folder, and no secret", async () => {
    const team = await operator.ask("POST", `/accounts/${tenant.account}/teams`, { name: "Movers" });
    const out = join(cli.home, "left");
    const month = new Date().toISOString().slice(0, 7);
    const shown = await cli.run(["export", "--account", tenant.account, "--out", out]);
    expect(shown).toMatchObject({ code: 0, out: `${out}\n` });
    const files = ["account", "export", "keys", `statement-${month}`, "teams"].map((name) => `${name}.json`);
    expect(readdirSync(out).sort()).toEqual([...files, `calls-${month}.jsonl`, `ledger-${month}.jsonl`].sort());
    expect(statSync(out).mode & 0o777).toBe(0o700);
    const all = readdirSync(out)
      .map((name) => read(out, name))
      .join("");
    expect(all).not.toContain(tenant.key);
    expect(all).not.toContain(ADMIN_TOKEN);
    expect(JSON.parse(read(out, "keys.json"))).toMatchObject([{ id: tenant.keyId }]);
    expect(read(out, "teams.json")).toContain((team.body as { id: string }).id);
    const closing = JSON.parse(read(out, `statement-${month}.json`)).closing_usd;
    expect(closing).toBe((await cli.json(["statement", tenant.account])).closing_usd);
    expect(JSON.parse(read(out, "export.json"))).toMatchObject({ account: tenant.account, months: [month] });
    // Nothing that is there is written over.
    expect(await cli.run(["export", "--account", tenant.account, "--out", out])).toMatchObject({ code: 2, out: "" });
    const again = ["export", "--account", tenant.account, "--out", join(cli.home, "again")];
    expect(await cli.json(again)).toMatchObject({ account: tenant.account });
    for (const bad of ["..", "../x", "nobody"]) {
      const ended = await cli.run(["export", "--account", bad, "--out", join(cli.home, "bad")]);
      expect(ended.code, bad).toBeGreaterThan(1);
    }
    expect(readdirSync(cli.home)).not.toContain("bad");
    expect(await cli.run(["export"])).toMatchObject({ code: 2 });
  });

  test("export goes on where an answer broke off or ended too soon, and has each line once", async () => {
    const lines = Array.from({ length: 10 }, (_, at) => `{"cursor":"1-${at}","id":${at},"name":"\u{1F600}"}\n`);
    const asked: string[] = [];
    const { at, server } = await answering((request, to) => {
      const { pathname, searchParams: query } = new URL(request.url ?? "", "http://x");
      const json = (body: object) =>
        void to.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(body));
      if (pathname.endsWith("/statement")) return json({});
      if (/keys|teams/.test(pathname)) return json({ data: [], next_cursor: null });
      if (!pathname.endsWith("/export")) return json({ id: "acme", created_at: "2026-11-20T00:00:00.000Z" });
      const cursor = query.get("cursor");
      asked.push(`${query.get("kind")} ${cursor}`);
      const rest = lines.slice(cursor === null ? 0 : Number(cursor.split("-")[1]) + 1);
      to.writeHead(200, { "content-type": "application/x-ndjson" });
      if (query.get("kind") === "calls")
        return void to.end(cursor === null ? lines.slice(0, 4).join("") : rest.join(""));
      if (rest.length === 0) return void to.end();
      // Three lines and a half, in the middle of a character.
      const some = Buffer.from(rest.join("")).subarray(0, Buffer.byteLength(rest.slice(0, 3).join("")) + 33);
      to.write(some);
      setTimeout(() => to.destroy(), 20);
    });
    const out = join(cli.home, "broken");
    const env = { TOLLGATE_URL: at };
    const ended = await cli.run(["export", "--account", "acme", "--out", out], { env, nowMs: Date.UTC(2026, 10, 22) });
    server.closeAllConnections();
    server.close();
    expect(ended).toMatchObject({ code: 0 });
    for (const kind of ["ledger", "calls"]) expect(read(out, `${kind}-2026-11.jsonl`)).toBe(lines.join(""));
    const { files } = JSON.parse(read(out, "export.json")) as { files: { lines: number; sha256: string }[] };
    const sha256 = createHash("sha256").update(lines.join("")).digest("hex");
    expect(files.map((file) => [file.lines, file.sha256])).toEqual([
      [10, sha256],
      [10, sha256],
    ]);
    expect(asked).toEqual([
      ...["ledger 999999999-0", "ledger null", "ledger 1-2", "ledger 1-5", "ledger 1-8", "ledger 1-9"],
      ...["calls null", "calls 1-3", "calls 1-9"],
    ]);
  });
});

describe("what goes wrong", () => {
  test.each<[string, Parameters<typeof createServer>[1], RegExp]>([
    [
      "a proxy's HTML",
      (_, to) => void to.writeHead(502, { "content-type": "text/html" }).end("<h1>Bad</h1>"),
      /not JSON.*proxy/,
    ],
    [
      "an answer that is cut",
      (_, to) => {
        to.writeHead(200, { "content-type": "application/json", "content-length": "1000" });
        to.write('{"data":[');
        setTimeout(() => to.destroy(), 20);
      },
      /broke off/,
    ],
    [
      "JSON that is cut",
      (_, to) => void to.writeHead(200, { "content-type": "application/json" }).end('{"data":['),
      /broke off/,
    ],
    ["a redirect", (_, to) => void to.writeHead(307, { location: "http://127.0.0.1:9/" }).end(), /redirect/],
    ["silence", () => undefined, /in time/],
  ])("%s is a fault, said without the token", async (_, answer, said) => {
    const { at, server } = await answering(answer);
    const env = { TOLLGATE_URL: at };
    const ended = await cli.run(["account", "list", "--timeout", "0.3"], { env });
    server.closeAllConnections();
    server.close();
    expect(ended).toMatchObject({ code: 1, out: "" });
    expect(ended.err).toMatch(said);
    expect(ended.err).not.toContain(ADMIN_TOKEN);
  });

  test("nothing there, a wrong token, a wrong address", async () => {
    expect(await cli.run(["status"], { env: { TOLLGATE_URL: "http://127.0.0.1:9" } })).toMatchObject({ code: 1 });
    const wrong = await cli.run(["account", "list", "--json"], {
      env: { TOLLGATE_TOKEN: "wrong-token-0123456789abcdef" },
    });
    expect(wrong.code).toBe(4);
    expect(JSON.parse(wrong.err)).toMatchObject({ error: { code: "invalid_admin_token" } });
    expect(wrong.err).not.toContain("wrong-token");
    for (const bad of ["http://other.example", "ftp://x", "nonsense", "https://a:b@c.example", `${url}/?a=1`]) {
      expect(await cli.run(["account", "list", "--url", bad]), bad).toMatchObject({ code: 2 });
    }
    expect(await cli.run(["account", "list"], { env: { TOLLGATE_TOKEN: undefined } })).toMatchObject({ code: 2 });
  });

  test("profiles keep a token in a file of mode 0600, for one address", async () => {
    const env = { TOLLGATE_URL: undefined, TOLLGATE_TOKEN: undefined };
    const set = await cli.run(["profile", "set", "here", "--url", url], { env, input: `${ADMIN_TOKEN}\n` });
    expect(set).toMatchObject({ code: 0 });
    expect(set.out).not.toContain(ADMIN_TOKEN);
    const file = join(cli.home, ".config/tollgate/profiles.json");
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(await cli.run(["account", "list"], { env })).toMatchObject({ code: 0 });
    expect(await cli.run(["account", "list", "--url", "http://127.0.0.1:9"], { env })).toMatchObject({ code: 2 });
    expect((await cli.run(["account", "list", "--profile", "hree"], { env })).err).toContain("Did you mean here?");
    expect(await cli.run(["profile", "use", "here"], { env })).toMatchObject({ code: 0 });
    expect(await cli.run(["profile", "use", "nobody"], { env })).toMatchObject({ code: 3 });
    const inJson = [
      ["profile", "set", "spare", "--url", url],
      ["profile", "use", "here"],
      ["profile", "remove", "spare"],
    ];
    for (const line of inJson) {
      const { out } = await cli.run([...line, "--json"], { env, input: `${ADMIN_TOKEN}\n` });
      expect(JSON.parse(out), line.join(" ")).toBeTypeOf("object");
    }
    const listed = await cli.run(["profile", "list", "--json"], { env });
    expect(listed.out).not.toContain(ADMIN_TOKEN);
    chmodSync(file, 0o640);
    expect((await cli.run(["account", "list"], { env })).err).toContain("chmod 600");
    chmodSync(file, 0o600);
    const moved = join(cli.home, "moved.json");
    writeFileSync(moved, readFileSync(file), { mode: 0o600 });
    const linked = join(cli.home, "linked.json");
    symlinkSync(moved, linked);
    expect((await cli.run(["account", "list"], { env: { ...env, TOLLGATE_PROFILES: linked } })).err).toContain(
      "symbolic link",
    );
    expect(await cli.run(["profile", "remove", "here"], { env })).toMatchObject({ code: 0 });
    expect(await cli.run(["account", "list"], { env })).toMatchObject({ code: 2 });
  });
});

test("what changes something says it in JSON too", async () => {
  const { account, keyId } = await operator.tenant();
  const file = join(cli.home, "json.csv");
  const priced = await operator.model(unique("json"));
  const [one, two] = [await operator.upstream(sandboxUrl), await operator.upstream(sandboxUrl)];
  const targets = [one, two].map((id) => ({ upstream: id, model }));
  await operator.call("PUT", `/aliases/${unique("alias")}`, { targets });
  await operator.call("PUT", `/models/${priced}/prices`, { prices: { input_tokens: { cost_usd: 0.5 } }, from: AT });
  const json = (...args: string[]) => cli.json<{ id: string }>(args);
  const hook = await json("webhook", "create", "https://hooks.example.com/json", "audit.failed", "--out", file);
  const person = await json("operator", "create", "Grace", "read", "--out", file);
  const lines: string[][] = [
    ...["block", "unblock"].map((verb) => ["account", verb, account]),
    ["key", "rotate", account, keyId, "--out", file],
    ...["block", "unblock", "revoke"].map((verb) => ["key", verb, account, keyId]),
    ["price", "withdraw", priced, "--from", AT],
    ["upstream", "drain", one],
    ["upstream", "undrain", one],
    ["operator", "role", person.id, "finance"],
    ["operator", "revoke", person.id],
    ["webhook", "rotate", hook.id, "--out", file],
    ...["disable", "enable", "delete"].map((verb) => ["webhook", verb, hook.id]),
  ];
  expect(await json("webhook", "deliveries", hook.id)).toMatchObject({ data: [] });
  expect(await json("alerts", "--account", account)).toMatchObject({ data: expect.any(Array) });
  for (const line of lines) expect(await json(...line, "--yes"), line.join(" ")).toBeTypeOf("object");
  // What is not there is told in JSON as well.
  for (const line of [
    ["webhook", "test", hook.id],
    ["webhook", "resend", hook.id, "evt_none"],
  ]) {
    const { code, err } = await cli.run([...line, "--json"]);
    expect([code, JSON.parse(err)], line.join(" ")).toMatchObject([3, { error: { code: expect.any(String) } }]);
  }
});

test("each command of the help is run here, or in cli-apply.test.ts", () => {
  const elsewhere = ["apply", "account import"];
  const left = COMMANDS.map(({ words }) => words).filter(
    (words) => !elsewhere.includes(words) && !cli.ran.some((line) => line.startsWith(`${words} `)),
  );
  expect(left).toEqual([]);
  const tableOnly = COMMANDS.map(({ words }) => words).filter(
    (words) =>
      !elsewhere.includes(words) && !cli.ran.some((line) => line.startsWith(`${words} `) && line.includes(" --json ")),
  );
  expect(tableOnly).toEqual([]);
});
