/**
 * What comes by the queue: messages of usage events, and ends of calls whose account object could not be told. The outside
 * of a message must be readable for it to be taken at all; its events are judged one by one, so that a bad one
 * keeps none of the others from the books.
 *
 * Fields of events that this version does not know are left out: the other side may be newer. Ends are handed on whole.
 */
import * as z from "zod";
import type { QueuedEnd, UsageEvent } from "../../core/account/hold.ts";
import { type AccountNumber, asId } from "../../core/ids.ts";
import { UNIT_NAMES } from "../../core/pricing/usage.ts";
import type { SetAside } from "../d1/usage-set-aside.ts";

const text = z.string().max(4_000);
const count = z.int().min(0);
/** A late event says differences. */
const difference = z.int();
/** A clock may have stepped back under a call: none of its durations is negative. */
const duration = z.number().transform((ms) => Math.max(0, Math.round(ms)));

const usageOf = (quantity: z.ZodInt) =>
  z.object(Object.fromEntries(UNIT_NAMES.map((unit) => [unit, quantity.optional()])));

const said = {
  eventId: text.min(1),
  account: text.min(1),
  team: text.nullable(),
  key: text,
  endpoint: text,
  model: text,
  alias: text.nullable(),
  upstream: text.nullable(),
  targetModel: text.nullable(),
  region: text.nullable(),
  outcome: z.enum(["completed", "client_gone", "stream_broken", "failed", "expired"]),
  reason: text.nullable(),
  status: z.int(),
  source: z.enum(["exact", "own_count", "none"]),
  lowInput: z.literal(true).optional(),
  overrunNanoUsd: count,
  priceRule: text,
  startedAtMs: count,
  endedAtMs: count,
  firstByteMs: duration.nullable(),
};
const Event = z.object({
  ...said,
  late: z.undefined().optional(),
  usage: usageOf(count),
  priceNanoUsd: count,
  costNanoUsd: count,
  lossNanoUsd: count,
  latencyMs: duration,
});
const LateEvent = z.object({
  ...said,
  late: z.literal(true),
  usage: usageOf(difference),
  priceNanoUsd: difference,
  costNanoUsd: difference,
  lossNanoUsd: difference,
  latencyMs: z.number().transform((ms) => Math.round(ms)),
});
const AnyEvent = z.discriminatedUnion("late", [Event, LateEvent]);
const EventsBody = z.object({ account: z.int().min(1), events: z.array(z.unknown()) });

const servedBy = z.object({ upstream: text, model: text, region: text.nullable() });
const EndBody = z.object({
  account: z.int().min(1),
  endedAtMs: z.int(),
  end: z.discriminatedUnion("kind", [
    z.object({
      kind: z.literal("settle"),
      said: z.looseObject({
        callId: text.min(1),
        outcome: z.enum(["completed", "client_gone", "stream_broken"]),
        status: z.int(),
        reading: z.looseObject({ source: z.enum(["exact", "own_count"]), usage: usageOf(count) }),
        servedBy,
        costNanoUsd: count,
        latencyMs: duration,
        firstByteMs: duration.nullable(),
        lostTries: count,
      }),
    }),
    z.object({
      kind: z.literal("release"),
      said: z.looseObject({
        callId: text.min(1),
        status: z.int(),
        reason: text,
        lostTries: count,
        servedBy: servedBy.nullable(),
        latencyMs: duration,
      }),
    }),
  ]),
});

/** The events of a message that can be read, and those that cannot. */
export interface ReadEvents {
  readonly account: AccountNumber;
  readonly events: readonly UsageEvent[];
  readonly unreadable: readonly SetAside[];
}
export type ReadMessage =
  | { readonly kind: "events"; readonly content: ReadEvents }
  | { readonly kind: "end"; readonly content: QueuedEnd }
  | { readonly kind: "unreadable"; readonly field: string };

export function readMessage(body: unknown): ReadMessage {
  const isEnd = typeof body === "object" && body !== null && "end" in body;
  const outcome = isEnd ? EndBody.safeParse(body) : EventsBody.safeParse(body);
  if (!outcome.success) return { kind: "unreadable", field: outcome.error.issues[0]?.path.join(".") ?? "" };
  // What the schemas check is what the types say; ids are text with a brand.
  if ("end" in outcome.data) return { kind: "end", content: outcome.data as unknown as QueuedEnd };
  return { kind: "events", content: readEvents(asId(outcome.data.account), outcome.data.events) };
}

function readEvents(account: AccountNumber, raw: readonly unknown[]): ReadEvents {
  const events: UsageEvent[] = [];
  const unreadable: SetAside[] = [];
  for (const event of raw) {
    const outcome = AnyEvent.safeParse(event);
    if (outcome.success) events.push(outcome.data as unknown as UsageEvent);
    else {
      const issue = outcome.error.issues[0];
      const problem = `${issue?.path.join(".") ?? ""}: ${issue?.message ?? "not readable"}`;
      unreadable.push({ account, eventId: idOf(event), problem, event });
    }
  }
  return { account, events, unreadable };
}

function idOf(event: unknown): string {
  const id = typeof event === "object" && event !== null && "eventId" in event ? event.eventId : undefined;
  return typeof id === "string" ? id.slice(0, 200) : "";
}
