/** Runs a Worker's `[triggers] crons`, which the platform does in production and miniflare does not. */
import type { Miniflare } from "miniflare";
import type { Say } from "./log.ts";

const MINUTE_MS = 60_000;

/** Understands "every N minutes" alone; says so of any other. */
export function runCrons(crons: readonly string[], miniflare: Miniflare, say: Say): void {
  for (const cron of crons) {
    const minutes = Number(/^\*\/(\d{1,2}) \* \* \* \*$/.exec(cron)?.[1]);
    if (!minutes) {
      say(`the cron "${cron}" is not run here: only "*/N * * * *" is`, "warn");
      continue;
    }
    setInterval(() => void run(cron, miniflare, say), minutes * MINUTE_MS).unref();
  }
}

async function run(cron: string, miniflare: Miniflare, say: Say): Promise<void> {
  try {
    // Asked for each time: a workerd that was started again has a new one.
    const worker = await miniflare.getWorker();
    await worker.scheduled({ cron, scheduledTime: new Date() });
  } catch (error) {
    say(`the cron "${cron}" failed: ${String(error)}`, "error");
  }
}
