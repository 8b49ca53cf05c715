/**
 * A gateway whose clock we set, to make the demo's past: the real code, bundled with a clock that follows the header
 * `x-demo-clock`. Nothing else is different, so what it books, ships and sums up is as true as any other day's. Alarms
 * are set on the machine's own clock, as far ahead as the gateway meant.
 */
import { readFileSync } from "node:fs";
import type { Plugin } from "rolldown";

/** Names the real module behind the one that wraps it. */
const REAL = "?real";

export const DEMO_CLOCK = "x-demo-clock";

const wrapped = (main: string, beginsMs: number): string => `
import worker, { Account as RealAccount } from ${JSON.stringify(main + REAL)};
export { Broker } from ${JSON.stringify(main + REAL)};

const machine = Date.now.bind(Date);
// While modules load, workerd has no time: the clock begins with the first request.
let ahead = null;
Date.now = () => {
  const now = machine();
  if (now === 0) return 0;
  ahead ??= ${beginsMs} - now;
  return Math.floor(now + ahead);
};

export class Account extends RealAccount {
  constructor(context, env) {
    const { storage } = context;
    const [set, get] = [storage.setAlarm.bind(storage), storage.getAlarm.bind(storage)];
    storage.setAlarm = (at, options) => set(Number(at) - ahead, options);
    storage.getAlarm = async (options) => {
      const at = await get(options);
      return at === null ? null : at + ahead;
    };
    super(context, env);
  }
}

export default {
  ...worker,
  fetch(request, env, context) {
    const at = Number(request.headers.get(${JSON.stringify(DEMO_CLOCK)}));
    // It never goes back.
    if (at > Date.now()) ahead = at - machine();
    return worker.fetch(request, env, context);
  },
  // Sums are made from the whole past afterwards, at the machine's time.
  scheduled: () => undefined,
};
`;

export const demoClock = (beginsMs: number): Plugin => ({
  name: "demo-clock",
  resolveId: { filter: { id: /\?real$/ }, handler: (id) => id },
  load: {
    filter: { id: /src\/index\.ts(\?real)?$/ },
    handler: (id) =>
      id.endsWith(REAL)
        ? { code: readFileSync(id.slice(0, -REAL.length), "utf8"), moduleType: "ts" }
        : { code: wrapped(id, beginsMs), moduleType: "js" },
  },
});
