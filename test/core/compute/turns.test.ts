import fc from "fast-check";
import { expect, it } from "vitest";
import { nextCall, type WaitingCall } from "../../../src/core/compute/turns.ts";

const any = () => true;

it("a stop is sent before whatever came first", () => {
  const waiting: WaitingCall[] = [
    { account: 1, cls: "create" },
    { account: 1, cls: "call" },
    { account: 2, cls: "stop" },
  ];
  expect(nextCall(waiting, any, new Map([[2, 9]]))).toBe(2);
});

it("what may not be sent now is passed over", () => {
  const waiting: WaitingCall[] = [
    { account: 1, cls: "create" },
    { account: 1, cls: "call" },
  ];
  expect(nextCall(waiting, (cls) => cls === "call", new Map())).toBe(1);
  expect(nextCall(waiting, () => false, new Map())).toBeUndefined();
});

it("accounts take turns: nobody waits for more than one call of each other account", () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 6 }), { maxLength: 60 }), (accounts) => {
      const waiting = accounts.map((account): WaitingCall => ({ account, cls: "call" }));
      const servedAt = new Map<number, number>();
      const order: number[] = [];
      while (waiting.length > 0) {
        const index = nextCall(waiting, any, servedAt)!;
        const [call] = waiting.splice(index, 1);
        order.push(call!.account);
        servedAt.set(call!.account, order.length);
        // Whoever still waits was served at most one call less than anybody else.
        const counts = new Map<number, number>();
        for (const account of order) counts.set(account, (counts.get(account) ?? 0) + 1);
        for (const { account } of waiting) {
          expect((counts.get(account) ?? 0) + 1).toBeGreaterThanOrEqual(Math.max(...counts.values()));
        }
      }
    }),
  );
});
