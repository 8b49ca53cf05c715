/** The queue's message of refused calls. An account object sends it; what does not fit is rejected whole. */
import * as z from "zod/mini";

const text = z.string().check(z.maxLength(4_000));
const id = z.string().check(z.minLength(1), z.maxLength(4_000));
const ms = z.int().check(z.minimum(0));

export const RefusedBody = z.object({
  refused: z.object({
    id,
    account: id,
    calls: z
      .array(
        z.object({
          callId: id,
          atMs: ms,
          // Clocks may differ by fractions of a millisecond.
          startedAtMs: z.pipe(
            z.number(),
            z.transform((at) => Math.max(0, Math.round(at))),
          ),
          key: text,
          team: z.nullable(text),
          endpoint: text,
          model: z.nullable(text),
          status: z.int(),
          reason: text,
          param: z.nullable(text),
          met: z.nullable(z.looseObject({})),
        }),
      )
      .check(z.maxLength(1_000)),
    counts: z
      .array(
        z.object({
          minuteMs: ms,
          key: text,
          level: text,
          limit: text,
          reason: text,
          refusals: z.int().check(z.minimum(1)),
        }),
      )
      .check(z.maxLength(1_000)),
  }),
});
