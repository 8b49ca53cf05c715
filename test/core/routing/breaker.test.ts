import { describe, expect, it } from "vitest";
import {
  abandoned,
  answered,
  type Breaker,
  EJECTION_MS,
  limited,
  newBreaker,
  PROBE_FORGOTTEN_MS,
  send,
  stateOf,
  struck,
} from "../../../src/core/routing/breaker.ts";

const strike = (breaker: Breaker, nowMs: number) => struck(breaker, send(breaker, nowMs), nowMs);
function ejected(atMs = 0): Breaker {
  const breaker = newBreaker();
  for (let time = 0; time < 3; time++) strike(breaker, atMs);
  return breaker;
}

describe("a breaker", () => {
  it("ejects for 10 s after three failures in a row, and not after two", () => {
    const breaker = newBreaker();
    strike(breaker, 0);
    strike(breaker, 0);
    expect(stateOf(breaker, 0)).toBe("closed");
    strike(breaker, 0);
    expect(stateOf(breaker, EJECTION_MS - 1)).toBe("ejected");
    expect(stateOf(breaker, EJECTION_MS)).toBe("due");
  });

  it("counts failures in a row only: an answer begins anew", () => {
    const breaker = newBreaker();
    for (let time = 0; time < 20; time++) {
      strike(breaker, time);
      strike(breaker, time);
      answered(breaker, send(breaker, time));
    }
    expect(stateOf(breaker, 20)).toBe("closed");
  });

  it("lets exactly one probe through when it is due, until that has ended", () => {
    const breaker = ejected();
    expect(send(breaker, EJECTION_MS).probe).toBe(true);
    expect(stateOf(breaker, EJECTION_MS)).toBe("ejected");
    expect(send(breaker, EJECTION_MS + 1).probe).toBe(false);
  });

  it("closes when the probe is answered", () => {
    const breaker = ejected();
    answered(breaker, send(breaker, EJECTION_MS));
    expect(stateOf(breaker, EJECTION_MS)).toBe("closed");
    strike(breaker, EJECTION_MS);
    expect(stateOf(breaker, EJECTION_MS)).toBe("closed");
  });

  it("ejects for another 10 s when the probe fails, once", () => {
    const breaker = ejected();
    strike(breaker, EJECTION_MS + 5);
    expect(stateOf(breaker, 2 * EJECTION_MS + 4)).toBe("ejected");
    expect(stateOf(breaker, 2 * EJECTION_MS + 5)).toBe("due");
  });

  it("forgets a probe that never ends, and takes one back that was given up", () => {
    const breaker = ejected();
    send(breaker, EJECTION_MS);
    expect(stateOf(breaker, EJECTION_MS + PROBE_FORGOTTEN_MS - 1)).toBe("ejected");
    expect(stateOf(breaker, EJECTION_MS + PROBE_FORGOTTEN_MS)).toBe("due");
    abandoned(breaker, send(breaker, EJECTION_MS + PROBE_FORGOTTEN_MS));
    expect(stateOf(breaker, EJECTION_MS + PROBE_FORGOTTEN_MS)).toBe("due");
  });

  it("takes no word of calls that were sent before it was ejected: neither good nor bad", () => {
    const breaker = newBreaker();
    const [early, late] = [send(breaker, 0), send(breaker, 0)];
    for (let time = 0; time < 3; time++) strike(breaker, 0);
    answered(breaker, early);
    expect(stateOf(breaker, 1)).toBe("ejected");
    struck(breaker, late, 9_000);
    expect(stateOf(breaker, EJECTION_MS)).toBe("due");
  });

  it("is closed by a call that was sent to it all the same and answered; one that fails does not hold it longer", () => {
    const breaker = ejected();
    strike(breaker, 5_000);
    expect(stateOf(breaker, EJECTION_MS)).toBe("due");
    answered(breaker, send(breaker, 6_000));
    expect(stateOf(breaker, 6_000)).toBe("closed");
  });

  it.each([
    [null, 10_000],
    [0, 1_000],
    [7_000, 7_000],
    [3_600_000, 60_000],
  ])("a 429 with retry-after %s ms ejects at once for %i ms", (retryAfterMs, forMs) => {
    const breaker = newBreaker();
    limited(breaker, send(breaker, 0), retryAfterMs, 0);
    expect(stateOf(breaker, forMs - 1)).toBe("ejected");
    expect(stateOf(breaker, forMs)).toBe("due");
  });

  it("a failure of a call that was sent before the ejection does not count once the target is well again", () => {
    const breaker = newBreaker();
    const early = send(breaker, 0);
    for (let time = 0; time < 3; time++) strike(breaker, 0);
    answered(breaker, send(breaker, EJECTION_MS));
    strike(breaker, EJECTION_MS);
    strike(breaker, EJECTION_MS);
    struck(breaker, early, EJECTION_MS);
    expect(stateOf(breaker, EJECTION_MS)).toBe("closed");
  });

  it("a 429 to a call from before the ejection makes it longer while it lasts, and none once it is over", () => {
    const breaker = newBreaker();
    const [early, late] = [send(breaker, 0), send(breaker, 0)];
    for (let time = 0; time < 3; time++) strike(breaker, 0);
    limited(breaker, early, 30_000, 0);
    expect(stateOf(breaker, 29_999)).toBe("ejected");
    answered(breaker, send(breaker, 30_000));
    limited(breaker, late, 30_000, 30_001);
    expect(stateOf(breaker, 30_001)).toBe("closed");
  });

  it("a call given up that was not the probe, or was an earlier one, leaves the probe its place", () => {
    const breaker = ejected();
    const first = send(breaker, EJECTION_MS);
    abandoned(breaker, send(breaker, EJECTION_MS));
    expect(stateOf(breaker, EJECTION_MS)).toBe("ejected");
    const forgottenAtMs = EJECTION_MS + PROBE_FORGOTTEN_MS;
    strike(breaker, forgottenAtMs);
    send(breaker, forgottenAtMs + EJECTION_MS);
    abandoned(breaker, first);
    expect(stateOf(breaker, forgottenAtMs + EJECTION_MS)).toBe("ejected");
  });

  it("a 429 never shortens an ejection", () => {
    const breaker = newBreaker();
    const other = send(breaker, 0);
    limited(breaker, send(breaker, 0), 30_000, 0);
    limited(breaker, other, 1_000, 0);
    expect(stateOf(breaker, 29_999)).toBe("ejected");
  });

  it("is not limited before its first 429, and is by one that comes late", () => {
    expect(newBreaker().limited).toBe(false);
    const breaker = newBreaker();
    const late = send(breaker, 0);
    for (let time = 0; time < 3; time++) strike(breaker, 0);
    expect(breaker.limited).toBe(false);
    limited(breaker, late, 30_000, 0);
    expect([breaker.limited, stateOf(breaker, 29_999), stateOf(breaker, 30_000)]).toEqual([true, "ejected", "due"]);
  });
});
