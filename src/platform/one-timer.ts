/**
 * One timer for a request. A call waits for half a dozen things that hardly ever happen: a body that stalls, a hold to
 * be renewed, a target that stays silent. With a timer each they cost a tenth of a short call's CPU.
 */
import type { After } from "../gateway/ports.ts";

interface Wait {
  readonly atMs: number;
  readonly act: () => void;
}

/**
 * All waits share one timer, set for the earliest of them. `lingers`: it stays set when all are taken back, since those
 * that follow are later as a rule. For requests alone: the platform drops it with them, but it would keep an object awake.
 */
export function oneTimer(lingers: boolean): After {
  const waits = new Set<Wait>();
  let timer: ReturnType<typeof setTimeout> | null = null;
  let dueMs = 0;
  /** How far the clock was set back meanwhile: a timer that fires has waited its time. */
  let setBackMs = 0;
  const now = () => performance.now() + setBackMs;
  const set = (atMs: number) => {
    if (timer !== null) {
      if (dueMs <= atMs) return;
      clearTimeout(timer);
    }
    dueMs = atMs;
    timer = setTimeout(fire, Math.max(0, atMs - now()));
  };
  const fire = () => {
    timer = null;
    setBackMs += Math.max(0, dueMs - now());
    const nowMs = now();
    const due = [...waits].filter(({ atMs }) => atMs <= nowMs).sort((a, b) => a.atMs - b.atMs);
    // One may take back another.
    for (const wait of due) if (waits.delete(wait)) wait.act();
    for (const { atMs } of waits) set(atMs);
  };
  return (ms, act) => {
    const wait = { atMs: now() + ms, act };
    waits.add(wait);
    set(wait.atMs);
    return () => {
      waits.delete(wait);
      if (lingers || waits.size > 0 || timer === null) return;
      clearTimeout(timer);
      timer = null;
    };
  };
}
