/** A gateway that a test kills with -9 at a named point of its own choice, and its sandbox. */
import { join } from "node:path";
import { sleep } from "../eventually.ts";
import { KillSwitch, type RentalPoint } from "../kill-points.ts";
import { Operator } from "../operator.ts";
import { TollgateProcess } from "../process.ts";
import { Renter } from "./renter.ts";

/** Alarms and lists come within some seconds. */
const REACHED_WITHIN_MS = 60_000;
/** Prices are published in a second or two; a kill before that has the old ones read for up to ten. */
const PUBLISHED_MS = 2_500;
const root = join(import.meta.dirname, "../../..");

/** Between these two moments a call was taken in, if it was. */
export interface Span {
  readonly fromMs: number;
  readonly toMs: number;
}

export class Mortal {
  readonly process: TollgateProcess;
  readonly operator: Operator;
  readonly sandboxUrl: string;
  readonly #killSwitch: KillSwitch;

  private constructor(process: TollgateProcess, killSwitch: KillSwitch) {
    this.process = process;
    this.operator = new Operator(process);
    this.sandboxUrl = process.sandboxUrl;
    this.#killSwitch = killSwitch;
  }

  static async start(lengths: { readonly hourMs: number; readonly dayMs: number }): Promise<Mortal> {
    const killSwitch = await KillSwitch.start();
    const TEST_BUILD_PLUGIN = join(root, "test/support/kill-points.ts");
    const times = { COMPUTE_HOUR_MS: String(lengths.hourMs), COMPUTE_DAY_MS: String(lengths.dayMs) };
    try {
      const env = { ...times, TEST_BUILD_PLUGIN, KILL_SWITCH_URL: killSwitch.url };
      return new Mortal(await TollgateProcess.start({ env }), killSwitch);
    } catch (error) {
      killSwitch.stop();
      throw error;
    }
  }

  /** A tenant who rents machines, whose prices a kill leaves as they are. */
  async renter(balanceUsd: number): Promise<Renter> {
    const renter = await Renter.make(this, balanceUsd);
    await sleep(PUBLISHED_MS);
    return renter;
  }

  async stop(): Promise<void> {
    await this.process.stop();
    this.#killSwitch.stop();
  }

  /** Makes the call, and kills the gateway where it says: at the call's own way, or while nobody calls. */
  async killed(point: RentalPoint, call: () => Promise<unknown> = async () => undefined): Promise<Span> {
    const reached = this.#killSwitch.armed(point);
    const fromMs = Date.now();
    const broken = call().catch(() => undefined);
    const waited = sleep(REACHED_WITHIN_MS).then(() => "not reached");
    if ((await Promise.race([reached, waited])) === "not reached") throw new Error(`nobody came to: ${point}`);
    const toMs = Date.now();
    await this.process.kill9Workerd();
    await broken;
    return { fromMs, toMs };
  }
}
