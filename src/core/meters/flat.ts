/** Meters of endpoints whose usage is known before the answer: a number of images, one request. */

import { asObject } from "../formats/json-fields.ts";
import type { Unit } from "../pricing/usage.ts";
import type { AnswerReader, Meter } from "./meter.ts";

/** One image per entry of `data`, but never more than were requested. */
export function imagesMade(asked: number): Meter<unknown> {
  return {
    bound: () => ({ fixed: { images: asked } }),
    reader: () => {
      let made = asked;
      let believed = false;
      return {
        kind: "json",
        read(answer) {
          const data = asObject(answer)?.data;
          if (!Array.isArray(data)) return false;
          believed = data.length <= asked;
          if (believed) made = data.length;
          return true;
        },
        reading: () => ({ source: believed ? "exact" : "own_count", usage: { images: made } }),
      };
    },
  };
}

/** One unit for each call that was answered, whatever the answer. */
export function onePerCall(unit: Unit): Meter<unknown> {
  const reader = (): AnswerReader => ({
    kind: "bytes",
    accepts: () => true,
    push: () => undefined,
    reading: () => ({ source: "exact", usage: { [unit]: 1 } }),
  });
  return { bound: () => ({ fixed: { [unit]: 1 } }), reader };
}
