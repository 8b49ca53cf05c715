import { expect, it } from "vitest";
import { ALERTS, TENANT_ALERTS } from "../../../src/core/alerts/alert.ts";

it("owners of an account may hear of what is its own, and of nothing of the operator's", () => {
  for (const type of TENANT_ALERTS) expect(type).toMatch(/^(balance|budget|credit|key|job|instance|storage)\./);
  const operators = ALERTS.filter((type) => !(TENANT_ALERTS as readonly string[]).includes(type));
  for (const type of operators)
    expect(type).toMatch(/^(upstream|margin|overrun|audit|archive|store|compute|webhook)\./);
});
