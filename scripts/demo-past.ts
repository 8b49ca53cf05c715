/** Runs the gateway through the demo's two weeks, once, before it runs as ever. */
import { prepareDemo } from "./demo.ts";
import { demoClock } from "./demo-clock.ts";
import { DEMO_DAYS, makeDemoData } from "./demo-data.ts";
import { sayAs } from "./log.ts";
import { SettingError } from "./settings.ts";
import type { Running } from "./shutdown.ts";
import type { State } from "./state.ts";
import { startWorker, type WorkerSpec } from "./workers.ts";

/** Says that this state has made-up usage. */
const KEPT_PAST = "demo-data";

interface Past {
  readonly spec: WorkerSpec;
  readonly state: State;
  readonly running: Running;
  readonly gatewayUrl: string;
  readonly sandboxUrl: string;
  readonly adminToken: string;
}

export async function makePast({ spec, state, running, gatewayUrl, sandboxUrl, adminToken }: Past): Promise<void> {
  if (state.kept(KEPT_PAST) === "made") return;
  if (state.kept("demo-key") !== undefined || state.kept(KEPT_PAST) !== undefined) {
    throw new SettingError(
      "--demo-data makes a past, so it needs a state that has none yet. Set STATE_DIR to a new directory.",
    );
  }
  state.keep(KEPT_PAST, "begun");
  const nowMs = Date.now();
  const stops: (() => Promise<void>)[] = [];
  const own: Running = {
    onEnd: (stop) => {
      stops.push(stop);
      running.onEnd(stop);
    },
    end: running.end,
  };
  await startWorker({ ...spec, plugins: [demoClock(nowMs - DEMO_DAYS * 24 * 3_600_000)] }, state, own);
  await prepareDemo(gatewayUrl, adminToken, sandboxUrl, state);
  await makeDemoData({ gateway: gatewayUrl, adminToken, nowMs, say: sayAs("demo") });
  await Promise.all(stops.map((stop) => stop()));
  state.keep(KEPT_PAST, "made");
}
