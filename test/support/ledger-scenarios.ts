/**
 * Scenarios of the ledger as lines of text, run against the pure rules and the real object alike.
 *
 * `credit 100` · `take 30` (a correction of -30) · `hold h1 60 ok` · `report h1 10` (by a renewal) · `settle h1 25` ·
 * `release h1` · `expire` (all that are open) · `floor -50` · and claims: `balance 75`, `held 0`, `overrun 5`, `loss
 * 60`. A step's last word is what comes of it where it is not plain: `ok`, `no_credit`, `settled`, `released`,
 * `expired`, `unknown`, `refused`.
 */
export interface LedgerDriver {
  /** `booked` or `out_of_range`. */
  credit(amount: number): Promise<string>;
  /** `ok` or the refusal's kind. */
  hold(id: string, amount: number): Promise<string>;
  /** The state answered and what was charged. */
  settle(id: string, actual: number): Promise<{ state: string; charged: number }>;
  release(id: string): Promise<{ state: string; charged: number }>;
  /** A renewal that carries what the call came to so far. */
  report(id: string, soFar: number): Promise<void>;
  expire(): Promise<void>;
  floor(amount: number): Promise<void>;
  state(): Promise<Record<"balance" | "held" | "overrun" | "loss", number>>;
}

export const LEDGER_SCENARIOS: Readonly<Record<string, string>> = {
  "a hold sets money aside and gives back what was not used":
    "credit 100 · hold h1 60 ok · held 60 · hold h2 60 no_credit · settle h1 25 · balance 75 · held 0 · hold h2 75 ok",
  "the last nano-USD can be held, one more cannot":
    "credit 10 · hold h1 10 ok · hold h2 1 no_credit · settle h1 10 · balance 0",
  "what costs nothing needs no balance": "hold h1 0 ok · settle h1 0 · balance 0 · held 0",
  "a settlement above its hold charges the hold and books the rest as overrun":
    "credit 100 · hold h1 10 ok · settle h1 25 · balance 90 · overrun 15 · held 0",
  "a released call costs nothing": "credit 100 · hold h1 60 ok · release h1 · balance 100 · held 0",
  "a hold has one end: later words get what was recorded":
    "credit 100 · hold h1 60 ok · settle h1 25 · settle h1 40 settled 25 · release h1 settled 25 · balance 75",
  "a released hold is not charged later":
    "credit 100 · hold h1 60 ok · release h1 · settle h1 40 released 0 · balance 100 · overrun 0",
  "nobody's call has no end": "settle h9 5 unknown 0 · release h9 unknown 0 · balance 0",
  "an expired hold costs the tenant nothing and the operator up to what was held":
    "credit 100 · hold h1 60 ok · expire · balance 100 · held 0 · loss 60",
  "a late settlement is charged, once, and nothing is lost":
    "credit 100 · hold h1 60 ok · expire · settle h1 25 expired 25 · loss 0 · settle h1 50 expired 25 · loss 0 · balance 75",
  "a late settlement above its hold charges the hold and books the rest as overrun":
    "credit 100 · hold h1 60 ok · expire · settle h1 80 expired 60 · loss 0 · overrun 20 · balance 40",
  "a late settlement takes what the balance has left, the rest is lost":
    "credit 100 · hold h1 60 ok · expire · hold h2 70 ok · settle h1 50 expired 30 · loss 20 · held 70 · balance 70",
  "a late settlement on an account in debt charges nothing":
    "floor -50 · hold h1 40 ok · expire · floor -50 · hold h2 50 ok · settle h2 50 · settle h1 40 expired 0 · loss 40 · balance -50",
  "a hold that expires is charged what its last renewal reported":
    "credit 100 · hold h1 60 ok · report h1 10 · report h1 25 · expire · balance 75 · held 0 · loss 35",
  "a late settlement gives back what was reported too much":
    "credit 100 · hold h1 60 ok · report h1 25 · expire · settle h1 5 expired 5 · balance 95 · loss 0 · settle h1 9 expired 5",
  "a late settlement adds what was reported too little":
    "credit 100 · hold h1 60 ok · report h1 25 · expire · settle h1 40 expired 40 · balance 60 · loss 0",
  "what was reported is charged up to what is held":
    "credit 100 · hold h1 60 ok · report h1 900 · expire · balance 40 · loss 0 · settle h1 900 expired 60 · overrun 840",
  "a late release leaves what was charged":
    "credit 100 · hold h1 60 ok · report h1 25 · expire · release h1 expired 25 · balance 75 · loss 0 · settle h1 50 expired 25",
  "what is reported of a call changes nothing while it runs":
    "credit 100 · hold h1 60 ok · report h1 25 · held 60 · balance 100 · settle h1 10 · balance 90",
  "a call that was not executed after all is no loss":
    "credit 100 · hold h1 60 ok · expire · release h1 expired 0 · loss 0 · balance 100",
  "what is held cannot be taken away by a correction":
    "credit 100 · hold h1 60 ok · take 41 refused · take 40 · balance 60 · hold h2 1 no_credit · settle h1 60 · balance 0",
  "who pays monthly goes down to the credit limit and no further":
    "floor -50 · hold h1 50 ok · hold h2 1 no_credit · settle h1 30 · balance -30 · hold h2 20 ok · hold h3 1 no_credit",
  "a floor raised over a debt stops new calls and leaves the books in order":
    "floor -50 · hold h1 50 ok · settle h1 50 · floor 0 · balance -50 · hold h2 1 no_credit · credit 51 · hold h2 1 ok · balance 1",
};

/** Runs one scenario; throws on the first step that came out otherwise. */
export async function runLedgerScenario(text: string, driver: LedgerDriver): Promise<void> {
  for (const step of text.split("·").map((part) => part.trim())) {
    const [said, wanted] = await runStep(step.split(" "), driver);
    if (said !== wanted) throw new Error(`${step}: expected ${wanted}, got ${said}`);
  }
}

async function runStep([verb, first = "", ...rest]: string[], driver: LedgerDriver): Promise<[string, string]> {
  const end = ({ state, charged }: { state: string; charged: number }) => `${state} ${charged}`;
  switch (verb) {
    case "credit":
      return [await driver.credit(Number(first)), "booked"];
    case "take":
      return [await driver.credit(-Number(first)), rest[0] === "refused" ? "out_of_range" : "booked"];
    case "hold":
      return [await driver.hold(first, Number(rest[0])), rest[1] ?? "ok"];
    case "settle": {
      const [actual, state, charged] = rest;
      const came = await driver.settle(first, Number(actual));
      // Without words of its own: settled; what was charged is claimed by the balance.
      return state ? [end(came), `${state} ${charged}`] : [came.state, "settled"];
    }
    case "release": {
      const came = await driver.release(first);
      return [end(came), rest.length > 0 ? rest.join(" ") : "released 0"];
    }
    case "report":
      await driver.report(first, Number(rest[0]));
      return ["", ""];
    case "expire":
      await driver.expire();
      return ["", ""];
    case "floor":
      await driver.floor(Number(first));
      return ["", ""];
    case "balance":
    case "held":
    case "overrun":
    case "loss":
      return [String((await driver.state())[verb]), first];
    default:
      throw new Error(`no such step: ${verb}`);
  }
}
