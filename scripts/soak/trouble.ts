/** What goes wrong while the soak runs: faults upstream, the gateway killed, keys revoked. */
import { sleep } from "../../test/support/eventually.ts";
import type { Operator } from "../../test/support/operator.ts";
import type { TollgateProcess } from "../../test/support/process.ts";
import type { Customer } from "./customer.ts";
import { pick, type Random } from "./random.ts";

const FAULTS: readonly Record<string, unknown>[] = [
  ...[400, 429, 500, 502, 503, 504, 520, 524].map((status) => ({ fault: "status", status })),
  { fault: "json_error_200" },
  { fault: "slow", ms: 400 },
  { fault: "truncate", after_frames: 2 },
  { fault: "garble", after_frames: 2 },
  { fault: "error_frame", after_frames: 2 },
  { fault: "no_done" },
  { fault: "no_usage" },
  { fault: "usage", usage: { prompt_tokens: -1, completion_tokens: 1e12, total_tokens: 0 } },
];
const MODELS = ["llama-7b", "image-turbo", "tts-multilingual", "embed-small", "rerank-base"];

export interface Done {
  faults: number;
  kills: number;
  revocations: number;
}

/** Something every second or so; a kill about every twenty. */
export async function breakThings(
  tollgate: TollgateProcess,
  operator: Operator,
  customers: readonly Customer[],
  random: Random,
  untilMs: number,
): Promise<Done> {
  const done: Done = { faults: 0, kills: 0, revocations: 0 };
  while (Date.now() < untilMs - 2_000) {
    await sleep(500 + random() * 1_000);
    const drawn = random();
    const customer = pick(random, customers);
    try {
      if (drawn < 0.05) {
        await tollgate.kill9Workerd();
        done.kills += 1;
      } else if (drawn < 0.2) {
        await customer.changeKey();
        done.revocations += 1;
      } else {
        const times = 1 + Math.floor(random() * 3);
        await operator.sandbox.fault(pick(random, MODELS), { ...pick(random, FAULTS), times });
        done.faults += 1;
      }
    } catch (error) {
      customer.surprises.push(`trouble itself failed: ${String(error)}`);
    }
  }
  return done;
}
