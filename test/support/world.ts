/** What an e2e file begins with: the shared process, seen by its operator. */
import { inject } from "vitest";
import { Operator } from "./operator.ts";
import type { SharedTollgate } from "./shared.ts";

export interface World extends SharedTollgate {
  readonly operator: Operator;
}

export function world(): World {
  const shared = inject("tollgate");
  return { ...shared, operator: new Operator(shared) };
}
