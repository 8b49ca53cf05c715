/** Runs a Worker's `[triggers] crons`. The platform does this in production; miniflare does not. */
import type { Miniflare } from "miniflare";
import type { Say } from "./log.ts";

const MINUTE_MS = 60_000;

/**
 * Runs them in their intervals, and gives a function that runs them all now: a process that ended before its changes
 * were published leaves that to the next run, and nobody who starts it again should wait minutes for it.
 * Supports "every N minutes" only; logs any other expression and ignores it.
 */
export function openCrons(crons: readonly string[], miniflare: Miniflare, say: Say): () => Promise<void> {
  const known = crons.filter((cron) => {
    const minutes = Number(/^\*\/(\d{1,2}) \* \* \* \*$/.exec(cron)?.[1]);
    if (!minutes) say(`the cron "${cron}" is not run here: only "*/N * * * *" is`, "warn");
    else setInterval(() => void run(cron, miniflare, say), minutes * MINUTE_MS).unref();
    return minutes > 0;
  });
  return async () => {
    for (const cron of known) await run(cron, miniflare, say);
  };
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
