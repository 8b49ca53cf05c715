/** Meters of endpoints whose price is known before the answer: so many images, one request. */

import { asObject } from "../formats/json-fields.ts";
import type { Unit } from "../pricing/usage.ts";
import type { AnswerReader, Meter } from "./meter.ts";

/** One image for each entry of `data`; never more than were asked for. */
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

/** One of a unit for each call that was answered, whatever the answer is. */
export function onePerCall(unit: Unit): Meter<unknown> {
  const reader = (): AnswerReader => ({
    kind: "bytes",
    accepts: () => true,
    push: () => undefined,
    reading: () => ({ source: "exact", usage: { [unit]: 1 } }),
  });
  return { bound: () => ({ fixed: { [unit]: 1 } }), reader };
}
