/** What an e2e file begins with: a shared process, seen by its operator. */
import { inject } from "vitest";
import { Operator } from "./operator.ts";
import type { SharedTollgate } from "./shared.ts";

export interface World extends SharedTollgate {
  readonly operator: Operator;
}

export function world(): World {
  const all = inject("tollgates");
  const shared = all[Number(process.env.VITEST_POOL_ID ?? 0) % all.length];
  if (!shared) throw new Error("no process was started");
  return { ...shared, operator: new Operator(shared) };
}
