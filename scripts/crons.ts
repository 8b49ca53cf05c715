/** Runs a Worker's `[triggers] crons`. The platform does this in production; miniflare does not. */
import type { Miniflare } from "miniflare";
import type { Say } from "./log.ts";

const MINUTE_MS = 60_000;

/** Supports "every N minutes" only; logs any other expression and ignores it. */
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
    // Fetched each time, since a restarted workerd has a new one.
    const worker = await miniflare.getWorker();
    await worker.scheduled({ cron, scheduledTime: new Date() });
  } catch (error) {
    say(`the cron "${cron}" failed: ${String(error)}`, "error");
  }
}
