/** Stops everything when this process is to end: by a signal, or because the process that ran `npm start` is gone. */

export interface Running {
  /** Registers what stops the running Workers. */
  onEnd(stop: () => Promise<void>): void;
  /** Stops everything now, with this exit code. */
  end(code: number): void;
}

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
/** A Worker that does not stop within this time is left to the reaper, ms. */
const PATIENCE_MS = 3_000;
const PARENT_CHECK_MS = 500;

export function watchForShutdown(): Running {
  const stops: (() => Promise<void>)[] = [];
  let ending = false;
  const end = (code: number) => {
    if (ending) return;
    ending = true;
    const patience = new Promise((resolve) => setTimeout(resolve, PATIENCE_MS));
    const stopped = Promise.allSettled(stops.map((stop) => stop()));
    void Promise.race([stopped, patience]).then(() => process.exit(code));
  };
  for (const signal of SIGNALS) process.on(signal, () => end(0));
  // package.json runs this script by `exec`, so its parent is npm itself, with no shell in between.
  if (process.env.npm_lifecycle_event) watchParent(() => end(0));
  return { onEnd: (stop) => void stops.push(stop), end };
}

/** Under npm a new parent means that npm was killed, and no signal will come. */
function watchParent(gone: () => void): void {
  const parent = process.ppid;
  setInterval(() => {
    if (process.ppid !== parent) gone();
  }, PARENT_CHECK_MS).unref();
}
