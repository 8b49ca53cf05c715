/**
 * `npx node bench/one-account.ts`: one account and one key, four isolates, leases on, as many calls as this machine
 * drives for 60 s (`--seconds`). Every call must be served, every one must be in the usage report, the audit must be
 * clean, and memory flat. Ends with 1 if one of these is not so.
 *
 * First come 20,000 calls an isolate (`--warm`), which take some minutes. Until an isolate's first full collection of
 * garbage its memory grows, a bare Worker's too (8 kB a call, to about 18,000 calls); only then flat means anything.
 */
import { parseArgs } from "node:util";
import { OperatorClient } from "../client/operator.ts";
import { watchForShutdown } from "../scripts/shutdown.ts";
import { anonymousBytes, cpuMicros, quiet } from "./machine.ts";
import { startLoad, startUpstream } from "./processes.ts";
import { chooseStorage } from "./storage.ts";
import { makeBundles, startSubject } from "./subject.ts";

Object.assign(process.env, {
  WRANGLER_LOG: "none",
  WRANGLER_SEND_METRICS: "false",
  CLOUDFLARE_CF_FETCH_ENABLED: "false",
});
const { values: flags } = parseArgs({
  options: { seconds: { type: "string", default: "60" }, warm: { type: "string", default: "20000" } },
});
const ISOLATES = 4;
const CONNECTIONS = 4;
/** Calls of an isolate between two looks at the clock. */
const CALLS = 200;
/** Growth from the first third to the end that is still flat: the allocator's pages come and go. */
const FLAT_MB = 50;
const MB = 1_048_576;
const out = (text: string) => process.stdout.write(`${text}\n`);

const running = watchForShutdown();
try {
  running.end(await main());
} catch (error) {
  out(error instanceof Error ? (error.stack ?? error.message) : String(error));
  running.end(1);
}

async function main(): Promise<number> {
  const upstream = await startUpstream();
  running.onEnd(async () => upstream.stop());
  const loads = await Promise.all(Array.from({ length: ISOLATES }, startLoad));
  running.onEnd(async () => loads.forEach((load) => void load.stop()));
  const place = { cores: null, storage: chooseStorage(false), leases: true, isolates: ISOLATES };
  const subject = await startSubject(await makeBundles(), upstream.port, place);
  running.onEnd(subject.stop);
  const { pid } = subject;
  const ports = subject.urls.map((url) => Number(new URL(url).port));
  const scenario = { frames: 0, paceMs: 0 };
  const order = {
    kind: "closed",
    scenario,
    usage: "asked",
    connections: CONNECTIONS,
    calls: CALLS,
    pauseMs: 0,
  } as const;
  const { key } = subject.tenants;

  let [calls, failed] = [0, 0];
  const drive = async (at: number, more: (driven: number) => boolean) => {
    for (let driven = 0; more(driven); ) {
      const outcome = await loads[at]?.run({ port: ports[at] ?? 0, key }, order);
      driven += outcome?.calls ?? 0;
      calls += outcome?.calls ?? 0;
      failed += outcome?.failed ?? 0;
    }
  };
  await Promise.all(loads.map((_, at) => drive(at, (driven) => driven < Number(flags.warm))));
  const warm = calls;

  const forMs = Number(flags.seconds) * 1000;
  const startedMs = performance.now();
  const cpu = cpuMicros(pid);
  const memory: number[] = [];
  const watching = setInterval(() => memory.push(anonymousBytes(pid) / MB), 1000);
  await Promise.all(loads.map((_, at) => drive(at, () => performance.now() - startedMs < forMs)));
  clearInterval(watching);
  const seconds = (performance.now() - startedMs) / 1000;
  const driven = calls - warm;
  await quiet(pid, 5_000);
  const usPerCall = (cpuMicros(pid) - cpu) / driven;

  const operator = new OperatorClient({ url: subject.urls[0] ?? "", token: subject.adminToken });
  const audit = await operator.audit("bench");
  const { data } = await operator.call<{ data: { calls: number }[] }>("GET", "/usage?account=bench&from=-1h");
  const told = data.reduce((sum, line) => sum + line.calls, 0);
  const third = Math.floor(memory.length / 3);
  const [early, end] = [Math.max(...memory.slice(0, third)), memory.at(-1) ?? 0];
  out(
    `${driven} calls in ${seconds.toFixed(1)} s: ${(driven / seconds).toFixed(0)} a second, ${usPerCall.toFixed(0)} us of CPU a call`,
  );
  out(
    `${failed} not served; ${told} of ${calls} in the usage report; audit ${audit.ok ? "clean" : audit.problems.join("; ")}`,
  );
  out(`memory ${early.toFixed(0)} MB at most in the first third, ${end.toFixed(0)} MB at the end`);
  const sound = failed === 0 && told === calls && audit.ok && audit.held_usd === 0 && end - early < FLAT_MB;
  out(sound ? "sound" : "not sound");
  return sound ? 0 : 1;
}
