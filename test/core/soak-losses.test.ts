/** The soak's judge of losses: what has no reason that can be seen from outside is unexplained. */
import { describe, expect, it } from "vitest";
import { type Evidence, explainLoss } from "../soak/losses.ts";
import type { BookRow } from "../soak/operator-book.ts";
import type { JoinedEvent } from "../support/joined-books.ts";
import type { Execution } from "../support/sandbox.ts";

const PRICES = { output_tokens: 1_000_000 };
const row = (fields: Partial<BookRow> = {}): BookRow => ({
  account: "a",
  call_id: "c",
  kind: "operator_loss",
  amount_nano_usd: 100,
  reason: null,
  ...fields,
});
const event = (fields: Partial<JoinedEvent> = {}) =>
  ({
    event_id: "c",
    outcome: "failed",
    price_nano_usd: 0,
    started_ms: 1_000,
    ended_ms: 2_000,
    ...fields,
  }) as JoinedEvent;
const sent = (status: number | null, output_tokens?: number) =>
  ({
    status,
    path: "/v1/chat/completions",
    executed: true,
    usage: output_tokens === undefined ? null : { output_tokens },
  }) as Execution;
const flawOf = (evidence: Partial<Evidence>, fields: Partial<BookRow> = {}, killsAtMs: number[] = []) =>
  explainLoss(row(fields), { event: event(), late: undefined, tries: [], ...evidence }, killsAtMs, PRICES).flaw;

describe("a loss is explained", () => {
  it.each<[string, Partial<Evidence>, number[]]>([
    ["by a kill while the call ran", { event: event({ outcome: "expired" }) }, [1_500]],
    ["by a try that may have been carried out, and then the call failed", { tries: [sent(502)] }, []],
    [
      "by a first try, where a second one served",
      { event: event({ outcome: "completed" }), tries: [sent(500), sent(200)] },
      [],
    ],
  ])("%s", (_, evidence, killsAtMs) => {
    expect(flawOf(evidence, {}, killsAtMs)).toBeNull();
  });
});

describe("a loss is unexplained", () => {
  it.each<[string, Partial<Evidence>, Partial<BookRow>, number[]]>([
    ["where no event tells of it", { event: undefined, tries: [sent(502)] }, {}, []],
    ["where its hold was forgotten", { tries: [sent(200)] }, { reason: "settle_unknown" }, []],
    ["where more was used than was held", { tries: [sent(200)] }, { kind: "overrun" }, []],
    ["where its call expired and no kill fell into it", { event: event({ outcome: "expired" }) }, {}, [999, 2_001]],
    ["where no try reached the service", {}, {}, []],
    ["where only a quote was asked for", { tries: [{ ...sent(200), path: "/v1/video/quote" }] }, {}, []],
    ["where the service says that nothing was done", { tries: [sent(503), sent(429)] }, {}, []],
    [
      "where the only try is the one that was charged",
      { event: event({ outcome: "completed" }), tries: [sent(200)] },
      {},
      [],
    ],
    ["where more was executed than it covers", { tries: [sent(502, 101)] }, {}, []],
  ])("%s", (_, evidence, fields, killsAtMs) => {
    expect(flawOf(evidence, fields, killsAtMs)).not.toBeNull();
  });
});
