/**
 * The failure contract as one table: every fault of the sandbox, for whole answers and for streams, with one target and
 * with two of which the first has the fault.
 *
 * A cell says: status and error code (`+error`: the stream ends in an error event and an aborted body); what is
 * charged; how often each target was called; the outcome in usage. Charges: `exact` what the serving target says it
 * used; `own` the gateway's own count; `part` its count of what was delivered; `zero` an entry of nothing; `none` no
 * entry. `loss`, alone or beside the charge for another try: the held amount is in the operator's book, since an
 * upstream may have done that work for nobody. Everywhere: no hold is left, the books agree, and so do the reports.
 * (`job_failure` is met by video jobs alone.)
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { eventually } from "../../support/eventually.ts";
import { IN_FULL } from "../../support/in-full.ts";
import { LogTail } from "../../support/log-tail.ts";
import type { Execution } from "../../support/sandbox.ts";
import type { Tenant } from "../../support/tenant.ts";
import { world } from "../../support/world.ts";

const { operator, sandboxUrl, logFile } = world();
const log = new LogTail(logFile);
afterAll(() => log.close());

const TABLE = `
fault            | answer | one target                            | the first of two targets
status 400       | both   | 400 invalid_request none 1 failed     | 400 invalid_request none 1+0 failed
status 404       | both   | 404 model_not_found none 1 failed     | 404 model_not_found none 1+0 failed
status 413       | both   | 413 invalid_request none 1 failed     | 413 invalid_request none 1+0 failed
status 422       | both   | 422 invalid_request none 1 failed     | 422 invalid_request none 1+0 failed
status 401       | both   | 503 no_healthy_upstream none 1 failed | 503 no_healthy_upstream none 1+0 failed
status 402       | both   | 503 no_healthy_upstream none 1 failed | 503 no_healthy_upstream none 1+0 failed
status 403       | both   | 503 no_healthy_upstream none 1 failed | 503 no_healthy_upstream none 1+0 failed
status 429       | both   | 503 no_healthy_upstream none 1 failed | 200 exact 1+1 completed
status 503       | both   | 503 no_healthy_upstream none 3 failed | 200 exact 1+1 completed
status 521       | both   | 503 no_healthy_upstream none 1 failed | 200 exact 1+1 completed
status 523       | both   | 503 no_healthy_upstream none 1 failed | 200 exact 1+1 completed
status 525       | both   | 503 no_healthy_upstream none 1 failed | 200 exact 1+1 completed
status 526       | both   | 503 no_healthy_upstream none 1 failed | 200 exact 1+1 completed
status 530       | both   | 503 no_healthy_upstream none 1 failed | 200 exact 1+1 completed
status 520       | both   | 502 upstream_error loss 1 failed      | 200 exact+loss 1+1 completed
status 522       | both   | 504 upstream_timeout loss 1 failed    | 200 exact+loss 1+1 completed
status 524       | both   | 504 upstream_timeout loss 1 failed    | 200 exact+loss 1+1 completed
status 500       | both   | 502 upstream_error loss 1 failed      | 502 upstream_error loss 1+0 failed
status 502       | both   | 502 upstream_error loss 1 failed      | 502 upstream_error loss 1+0 failed
status 504       | both   | 504 upstream_timeout loss 1 failed    | 504 upstream_timeout loss 1+0 failed
retry_on 500     | both   | 502 upstream_error loss 1 failed      | 200 exact+loss 1+1 completed
redirect         | both   | 502 upstream_error loss 1 failed      | 502 upstream_error loss 1+0 failed
echo headers     | both   | 400 invalid_request none 1 failed     | 400 invalid_request none 1+0 failed
error in a 200   | both   | 502 upstream_error loss 1 failed      | 200 exact+loss 1+1 completed
slow             | both   | 200 exact 1 completed                 | 200 exact 1+0 completed
too slow         | json   | 504 upstream_timeout loss 1 failed    | 504 upstream_timeout loss 1+0 failed
too slow         | stream | 504 upstream_timeout loss 1 failed    | 200 exact+loss 1+1 completed
stall            | json   | 504 upstream_timeout loss 1 failed    | 504 upstream_timeout loss 1+0 failed
stall            | stream | 200+error part 1 stream_broken        | 200+error part 1+0 stream_broken
truncate         | json   | 502 upstream_error loss 1 failed      | 200 exact+loss 1+1 completed
truncate         | stream | 200+error part 1 stream_broken        | 200+error part 1+0 stream_broken
truncate at once | json   | 502 upstream_error loss 1 failed      | 200 exact+loss 1+1 completed
truncate at once | stream | 200+error part 1 stream_broken        | 200+error part 1+0 stream_broken
garble           | json   | 502 upstream_error loss 1 failed      | 200 exact+loss 1+1 completed
garble           | stream | 200+error part 1 stream_broken        | 200+error part 1+0 stream_broken
error frame      | json   | 200 exact 1 completed                 | 200 exact 1+0 completed
error frame      | stream | 200+error part 1 stream_broken        | 200+error part 1+0 stream_broken
no [DONE]        | json   | 200 exact 1 completed                 | 200 exact 1+0 completed
no [DONE]        | stream | 200+error exact 1 stream_broken       | 200+error exact 1+0 stream_broken
no usage         | both   | 200 own 1 completed                   | 200 own 1+0 completed
usage absurd     | both   | 200 own 1 completed                   | 200 own 1+0 completed
usage zero       | both   | 200 zero 1 completed                  | 200 zero 1+0 completed
`;

const OUTPUT_TOKENS = 40;
/** Far above what a busy machine needs for an answer; the faults take longer still. */
const TIMEOUTS = { first_byte_ms: 6_000, answer_ms: 6_000, idle_ms: 6_000, total_ms: 30_000 };

const FAULTS: Record<string, Record<string, unknown>> = {
  redirect: { fault: "redirect" },
  "echo headers": { fault: "echo_headers" },
  "error in a 200": { fault: "json_error_200" },
  slow: { fault: "slow", ms: 150 },
  "too slow": { fault: "slow", ms: 9_000 },
  stall: { fault: "stall", ms: 15_000 },
  truncate: { fault: "truncate", after_frames: 3 },
  "truncate at once": { fault: "truncate", after_frames: 0 },
  garble: { fault: "garble", after_frames: 3 },
  "error frame": { fault: "error_frame", after_frames: 3 },
  "no [DONE]": { fault: "no_done" },
  "no usage": { fault: "no_usage" },
  "usage absurd": { fault: "usage", usage: { prompt_tokens: -1, completion_tokens: 1e12, total_tokens: 0 } },
  "usage zero": { fault: "usage", usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 } },
};
const faultOf = (name: string): Record<string, unknown> =>
  FAULTS[name] ?? { fault: "status", status: Number(name.split(" ")[1]) };

/** One cell of the table and the call that tries it. */
interface Tried {
  readonly expected: string;
  readonly account: string;
  readonly alias: string;
  readonly callId: string | null;
  readonly models: readonly string[];
  /** Status and code, or how the stream ended. */
  readonly answer: string;
}

const rows = TABLE.trim()
  .split("\n")
  .slice(1)
  .map((line) => {
    const [fault = "", answer = "", one = "", two = ""] = line.split("|").map((part) => part.trim());
    return { fault, answer, one, two };
  });
const all: Tried[] = [];
let upstream: string;

beforeAll(async () => {
  upstream = await operator.upstream(sandboxUrl, { timeouts: TIMEOUTS });
});

/** In short, where codes have the same cells, the second is tried with whole answers alone, and no third. */
const known = ({ one, two }: (typeof rows)[number], at: number): number =>
  rows.slice(0, at).filter((other) => other.one === one && other.two === two).length;
const tried = rows.flatMap((row, at) => {
  if (IN_FULL || row.answer !== "both" || known(row, at) === 0) return [row];
  return known(row, at) === 1 ? [{ ...row, answer: "json" }] : [];
});

test.concurrent.each(tried)("$fault, $answer", async ({ fault, answer, one, two }) => {
  const tenant = await operator.tenant();
  const cases = (answer === "both" ? [false, true] : [answer === "stream"]).flatMap((stream) => [
    { stream, targets: 1, expected: one },
    { stream, targets: 2, expected: two },
  ]);
  const tried = await Promise.all(cases.map((how) => tryCall(tenant, fault, how)));
  all.push(...tried);
  const calls = await operator.sandbox.calls(...tried.flatMap(({ models }) => models));
  const cells = await Promise.all(tried.map((one) => cellOf(tenant, one, calls)));
  expect(cells).toEqual(cases.map(({ expected }) => expected.replace("+loss", "").replace("loss", "none")));
  expect(await tenant.audit()).toMatchObject({ ok: true, open_holds: 0, held_usd: 0, overrun_usd: 0 });
});

test("the reports say the same: each call once, what failed as an error, what may have been lost as a loss", async () => {
  const accounts = [...new Set(all.map(({ account }) => account))];
  expect(all.length).toBeGreaterThan(tried.length);
  await Promise.all(
    accounts.map(async (account) => {
      const cells = all.filter((one) => one.account === account);
      const reported = await eventually("all of its calls in the reports", async () => {
        const found = await reportOf(account);
        return found.length === cells.length && found;
      });
      for (const { alias, expected } of cells) {
        const row = reported.find((one) => one.alias === alias);
        const errors = expected.endsWith("completed") ? 0 : 1;
        const charged = !/ (none|loss|zero) /.test(expected);
        expect([expected, row?.calls, row?.errors]).toEqual([expected, 1, errors]);
        expect([expected, Number(row?.loss_usd) > 0]).toEqual([expected, expected.includes("loss")]);
        expect([expected, Number(row?.price_usd) > 0]).toEqual([expected, charged]);
      }
    }),
  );
});

async function reportOf(account: string): Promise<Record<string, unknown>[]> {
  const at = (ms: number) => new Date(Date.now() + ms).toISOString();
  const query = `account=${account}&group_by=alias&from=${at(-3_600_000)}&to=${at(3_600_000)}`;
  return (await operator.call<{ data: Record<string, unknown>[] }>("GET", `/usage?${query}`)).data;
}

async function tryCall(
  tenant: Tenant,
  fault: string,
  how: { stream: boolean; targets: number; expected: string },
): Promise<Tried> {
  const { stream, targets, expected } = how;
  const made = Array.from({ length: targets }, () => operator.instance(tenant, { upstreams: [upstream] }));
  const models = await Promise.all(made);
  await operator.sandbox.fault(models[0] as string, faultOf(fault));
  const chosen = models.map((model) => ({ upstream, model }));
  const alias = await operator.alias(tenant, chosen);
  if (fault.startsWith("retry_on")) {
    const asked = chosen.map((target, priority) => ({ ...target, priority }));
    await operator.call("PUT", `/aliases/${alias}`, { account: tenant.account, targets: asked, retry_on: [500] });
  }
  const body = { model: alias, max_tokens: OUTPUT_TOKENS, sandbox_output_tokens: OUTPUT_TOKENS, stream };
  const response = await tenant.post({ ...body, messages: [{ role: "user", content: "Hi" }] });
  const { text, aborted } = await read(response);
  const callId = response.headers.get("x-service-request-id");
  const answer = `${response.status}${said(response.status, text, aborted)}`;
  return { expected, account: tenant.account, alias, callId, models, answer };
}

async function read(response: Response): Promise<{ text: string; aborted: boolean }> {
  const decoder = new TextDecoder();
  let text = "";
  try {
    for await (const piece of response.body as ReadableStream<Uint8Array>) {
      text += decoder.decode(piece, { stream: true });
    }
    return { text, aborted: false };
  } catch {
    return { text, aborted: true };
  }
}

function said(status: number, text: string, aborted: boolean): string {
  if (status !== 200) return ` ${(JSON.parse(text) as { error: { code: string } }).error.code}`;
  const errorEvent = /\ndata: \{"error":/.test(text);
  const whole = text.includes("[DONE]") || text.startsWith("{");
  if (whole === aborted || errorEvent !== aborted) {
    return ` and is neither whole nor broken: ${JSON.stringify({ whole, errorEvent, aborted })}`;
  }
  return aborted ? "+error" : "";
}

/** The cell that the call has come to. */
async function cellOf(tenant: Tenant, tried: Tried, calls: readonly Execution[]): Promise<string> {
  const { callId, models, answer } = tried;
  const outcome = await outcomeOf(callId);
  const counts = models.map((model) => calls.filter((call) => call.model === model).length);
  const entries = (await tenant.charges()).filter(({ call_id }) => call_id === callId);
  const served = calls.filter((call) => call.request_id === callId && call.executed).at(-1);
  const charges = entries.map(({ amount_usd }) => chargeOf(-amount_usd * 1e6, served, outcome));
  return `${answer} ${charges.join(" and ") || "none"} ${counts.join("+")} ${outcome}`;
}

/** As the gateway logs it. */
const outcomeOf = (callId: string | null): Promise<string> =>
  eventually("the call's line in the log", () => {
    const line = log.lines().find((one) => one.includes('"event":"call"') && one.includes(`"${callId}"`));
    return line && /"outcome":"(\w+)"/.exec(line)?.[1];
  });

/** `tokens`: what was charged, at 1 USD a million. */
function chargeOf(tokens: number, served: Execution | undefined, outcome: string): string {
  if (Math.abs(tokens) < 1e-6) return "zero";
  const { input_tokens = 0, output_tokens = 0 } = served?.usage ?? {};
  if (Math.abs(tokens - input_tokens - output_tokens) < 1e-6) return "exact";
  // A token of ours is a few bytes of text: about as many as the sandbox's, and of a part no more than of the whole.
  if (outcome === "completed") return tokens > OUTPUT_TOKENS / 2 && tokens < OUTPUT_TOKENS * 4 ? "own" : `${tokens}`;
  return tokens >= 1 && tokens < OUTPUT_TOKENS ? "part" : `${tokens}`;
}
