/** Waits with a timer of their own, and waits that repeat. The waits of one call share a timer: `Ports.after`. */
import type { After } from "./ports.ts";

/** With a timer of its own. */
export const after: After = (ms, act) => {
  const timer = setTimeout(act, ms);
  return () => clearTimeout(timer);
};

/** Calls `act` each `ms` until what it returns is called. */
export function every(ms: number, act: () => void, wait: After): () => void {
  const again = () => {
    stop = wait(ms, again);
    act();
  };
  let stop = wait(ms, again);
  return () => stop();
}
