/** What calls come to beyond their holds: the operator bears it, and is told when it is much. */
import { afterEach, expect, it, vi } from "vitest";
import { fakeClock, newAccount, request, settlement } from "../support/worker/account-support.ts";

afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

/** What the log was told of them. */
const told = (log: { mock: { calls: unknown[][] } }) =>
  log.mock.calls.flat().filter((line) => String(line).includes("overrun_high"));

it("a call that costs more than its price is told, once a day for each target of a name", async () => {
  const log = vi.spyOn(console, "log").mockImplementation(() => undefined);
  const negative = () => log.mock.calls.flat().filter((line) => String(line).includes("margin.negative"));
  const advance = fakeClock();
  const { stub } = await newAccount({ balance: 100_000 });
  const calls: [id: string, cost: number, lines: number][] = [
    ["even", 10, 0],
    ["dear", 11, 1],
    ["again", 50, 1],
  ];
  for (const [id, costNanoUsd, lines] of calls) {
    await stub.admit(request(id, 100));
    await stub.settle(settlement(id, 10, { costNanoUsd }));
    expect(negative()).toHaveLength(lines);
  }
  expect(JSON.parse(String(negative()[0]))).toMatchObject({
    call: "dear",
    price_usd: "0.00000001",
    cost_usd: "0.000000011",
  });
  advance(86_400_000);
  await stub.admit(request("next day", 10));
  await stub.settle(settlement("next day", 10, { costNanoUsd: 11 }));
  expect(negative()).toHaveLength(2);
});

it("above a hundredth of the account's day are told to the operator, once a day", async () => {
  const log = vi.spyOn(console, "log").mockImplementation(() => undefined);
  const advance = fakeClock();
  const { stub } = await newAccount({ balance: 100_000 });
  const calls: [id: string, hold: number, used: number, lines: number][] = [
    ["large", 10_000, 10_000, 0],
    // 100 of 10,100 so far: not more than a hundredth.
    ["first over", 100, 200, 0],
    ["second over", 100, 103, 1],
    ["third over", 100, 1_000, 1],
  ];
  for (const [id, hold, used, lines] of calls) {
    await stub.admit(request(id, hold));
    await stub.settle(settlement(id, used));
    expect(told(log)).toHaveLength(lines);
  }
  expect(JSON.parse(String(told(log)[0]))).toMatchObject({ overrun_usd: "0.000000103", charged_usd: "0.0000102" });
  advance(86_400_000);
  await stub.admit(request("next day", 10));
  await stub.settle(settlement("next day", 11));
  expect(told(log)).toHaveLength(2);
  expect(await stub.audit()).toMatchObject({ ok: true, overrunNanoUsd: 100 + 3 + 900 + 1 });
});
