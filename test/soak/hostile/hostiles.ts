/** The hostile tenants of a soak: one of each kind, each with its own account. */
import type { Operator } from "../../support/operator.ts";
import type { Random } from "../random.ts";
import { Crasher } from "./crasher.ts";
import { Dropper } from "./dropper.ts";
import { Leaver } from "./leaver.ts";
import { Pauser } from "./pauser.ts";
import { Rogue } from "./rogue.ts";
import { Smuggler } from "./smuggler.ts";

/** Too little credit for what they send. */
const POOR = { balance_usd: 0.000001 };

export class Hostiles {
  readonly parties: readonly Rogue[];
  readonly leavers: readonly Leaver[];
  readonly crasher: Crasher;
  readonly smuggler: Smuggler;
  readonly #others: readonly (Pauser | Dropper)[];

  private constructor(rogues: Readonly<Record<Kind, Rogue>>, randomOf: (who: string) => Random) {
    this.parties = Object.values(rogues);
    this.leavers = [
      new Leaver(rogues.leaver, randomOf("leaver")),
      new Leaver(rogues.drainedLeaver, randomOf("leaver that is drained")),
    ];
    this.crasher = new Crasher(rogues.crasher, randomOf("crasher"));
    this.smuggler = new Smuggler(rogues.smuggler, randomOf("smuggler"));
    this.#others = [
      new Pauser(rogues.pauser, randomOf("pauser"), "stops"),
      new Pauser(rogues.pauser, randomOf("lingerer"), "lingers"),
      new Dropper(rogues.dropper, randomOf("dropper"), ["abrupt"]),
      new Dropper(rogues.dripper, randomOf("dripper"), ["drip", "silent"]),
    ];
  }

  static async make(operator: Operator, randomOf: (who: string) => Random): Promise<Hostiles> {
    const rogues: Record<Kind, Rogue> = {
      leaver: await Rogue.make(operator),
      drainedLeaver: await Rogue.make(operator, { on_disconnect: "drain" }),
      pauser: await Rogue.make(operator),
      crasher: await Rogue.make(operator, POOR),
      dropper: await Rogue.make(operator, POOR),
      dripper: await Rogue.make(operator, POOR),
      smuggler: await Rogue.make(operator),
    };
    return new Hostiles(rogues, randomOf);
  }

  /** Calls whose client left after the model had finished. */
  get leftAfterOutput(): ReadonlySet<string> {
    return new Set(this.leavers.flatMap(({ leftAfterOutput }) => [...leftAfterOutput]));
  }

  async attackUntil(untilMs: number): Promise<void> {
    const attackers = [...this.leavers, this.crasher, this.smuggler, ...this.#others];
    await Promise.all(attackers.map((attacker) => attacker.attackUntil(untilMs)));
  }
}

type Kind = "leaver" | "drainedLeaver" | "pauser" | "crasher" | "dropper" | "dripper" | "smuggler";
