/**
 * The gateway with a delay on each call to an account's object, as where the object lives in another region. Local
 * workerd answers such calls at once.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Writes a main module over this one; to be removed once it is bundled. */
export function delayedEntry(main: string, delayMs: number): { path: string; remove(): void } {
  const dir = mkdtempSync(join(tmpdir(), "tollgate-bench-"));
  const path = join(dir, "delayed.js");
  const from = JSON.stringify(main);
  writeFileSync(path, `export * from ${from};\nimport worker from ${from};\n${delaying(delayMs / 2)}`);
  return { path, remove: () => rmSync(dir, { recursive: true, force: true }) };
}

const delaying = (eachWayMs: number) => `
const pause = () => new Promise((resolve) => setTimeout(resolve, ${eachWayMs}));
const slowStub = (stub) => new Proxy(stub, {
  get(target, name) {
    const found = target[name];
    if (typeof found !== "function" || name === "then") return found;
    return async (...given) => {
      await pause();
      const answer = await target[name](...given);
      await pause();
      return answer;
    };
  },
});
const STUBS = new Set(["get", "getByName"]);
const slow = (namespace) => new Proxy(namespace, {
  get(target, name) {
    const found = target[name];
    if (typeof found !== "function") return found;
    return (...given) => (STUBS.has(name) ? slowStub(target[name](...given)) : target[name](...given));
  },
});
const delayed = (env) => ({ ...env, ACCOUNTS: slow(env.ACCOUNTS) });
export default {
  fetch: (request, env, context) => worker.fetch(request, delayed(env), context),
  queue: (batch, env, context) => worker.queue(batch, delayed(env), context),
  scheduled: (controller, env, context) => worker.scheduled(controller, delayed(env), context),
};
`;
