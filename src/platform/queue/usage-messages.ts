/**
 * Parses what the queue delivers: messages of usage events, and ends of calls whose account object could not be
 * reached. A message whose envelope cannot be parsed is rejected whole. Its events are parsed one by one, so that a bad
 * event does not keep the others out of D1.
 *
 * Unknown fields of events are dropped, because the sender may be newer. Ends are passed on whole.
 */
import * as z from "zod/mini";
import type { Gauges, QueuedEnd, UsageEvent } from "../../core/account/hold.ts";
import type { RefusedBatch } from "../../core/account/refused-call.ts";
import type { Alert } from "../../core/alerts/alert.ts";
import { type AccountNumber, asId } from "../../core/ids.ts";
import { UNIT_NAMES } from "../../core/pricing/usage.ts";
import type { SetAside } from "../d1/usage-set-aside.ts";
import { RefusedBody } from "./refused-messages.ts";

const text = z.string().check(z.maxLength(4_000));
const count = z.int().check(z.minimum(0));
/** A late event carries differences. */
const difference = z.int();
/** Clocks may step back during a call; durations are never negative. */
const duration = z.pipe(
  z.number(),
  z.transform((ms) => Math.max(0, Math.round(ms))),
);

const usageOf = (quantity: z.ZodMiniNumberFormat) =>
  z.object(Object.fromEntries(UNIT_NAMES.map((unit) => [unit, z.optional(quantity)])));

const fields = {
  eventId: text.check(z.minLength(1)),
  account: text.check(z.minLength(1)),
  team: z.nullable(text),
  key: text,
  endpoint: text,
  model: text,
  alias: z.nullable(text),
  upstream: z.nullable(text),
  targetModel: z.nullable(text),
  region: z.nullable(text),
  outcome: z.enum(["completed", "client_gone", "stream_broken", "failed", "expired"]),
  reason: z.nullable(text),
  status: z.int(),
  source: z.enum(["exact", "own_count", "none"]),
  lowInput: z.optional(z.literal(true)),
  overrunNanoUsd: count,
  priceRule: text,
  startedAtMs: count,
  endedAtMs: count,
  firstByteMs: z.nullable(duration),
  country: z.nullish(text),
  // Stored as it came: nothing sums it.
  detail: z.optional(z.looseObject({})),
};
const Event = z.object({
  ...fields,
  late: z.optional(z.undefined()),
  usage: usageOf(count),
  priceNanoUsd: count,
  costNanoUsd: count,
  lossNanoUsd: count,
  latencyMs: duration,
});
const LateEvent = z.object({
  ...fields,
  late: z.literal(true),
  usage: usageOf(difference),
  priceNanoUsd: difference,
  costNanoUsd: difference,
  lossNanoUsd: difference,
  latencyMs: z.pipe(
    z.number(),
    z.transform((ms) => Math.round(ms)),
  ),
});
const AnyEvent = z.discriminatedUnion("late", [Event, LateEvent]);
const EventsBody = z.object({
  account: z.int().check(z.minimum(1)),
  events: z.array(z.unknown()),
  alerts: z.optional(z.array(z.unknown())),
  gauges: z.optional(z.object({ open_holds: count, waiting_events: count, account_bytes: count })),
});
const AnyAlert = z.object({
  id: z.string().check(z.minLength(1), z.maxLength(200)),
  type: text,
  account: z.nullable(text),
  atMs: count,
  data: z.looseObject({}),
});

const servedBy = z.object({ upstream: text, model: text, region: z.nullable(text) });
const EndBody = z.object({
  account: z.int().check(z.minimum(1)),
  endedAtMs: z.int(),
  end: z.discriminatedUnion("kind", [
    z.object({
      kind: z.literal("settle"),
      said: z.looseObject({
        callId: text.check(z.minLength(1)),
        outcome: z.enum(["completed", "client_gone", "stream_broken"]),
        status: z.int(),
        reading: z.looseObject({ source: z.enum(["exact", "own_count"]), usage: usageOf(count) }),
        servedBy,
        costNanoUsd: count,
        latencyMs: duration,
        firstByteMs: z.nullable(duration),
        lostTries: count,
      }),
    }),
    z.object({
      kind: z.literal("release"),
      said: z.looseObject({
        callId: text.check(z.minLength(1)),
        status: z.int(),
        reason: text,
        lostTries: count,
        servedBy: z.nullable(servedBy),
        latencyMs: duration,
      }),
    }),
  ]),
});

/** The events of a message that can be parsed, and those that cannot. */
export interface ReadEvents {
  readonly account: AccountNumber;
  readonly events: readonly UsageEvent[];
  readonly alerts: readonly Alert[];
  readonly gauges?: Gauges | undefined;
  readonly unreadable: readonly SetAside[];
}
export type ReadMessage =
  | { readonly kind: "events"; readonly content: ReadEvents }
  | { readonly kind: "end"; readonly content: QueuedEnd }
  | { readonly kind: "refused"; readonly content: RefusedBatch }
  | { readonly kind: "unreadable"; readonly field: string };

export function readMessage(body: unknown): ReadMessage {
  const has = (name: string) => typeof body === "object" && body !== null && name in body;
  const form = has("end") ? EndBody : has("refused") ? RefusedBody : EventsBody;
  const outcome = form.safeParse(body);
  if (!outcome.success) return { kind: "unreadable", field: outcome.error.issues[0]?.path.join(".") ?? "" };
  // The schemas check what the types promise; ids are branded text.
  if ("end" in outcome.data) return { kind: "end", content: outcome.data as unknown as QueuedEnd };
  if ("refused" in outcome.data) return { kind: "refused", content: outcome.data.refused as unknown as RefusedBatch };
  return { kind: "events", content: readEvents(asId(outcome.data.account), outcome.data) };
}

function readEvents(account: AccountNumber, body: z.output<typeof EventsBody>): ReadEvents {
  const unreadable: SetAside[] = [];
  const read = <T>(schema: z.ZodMiniType, raw: readonly unknown[]): T[] =>
    raw.flatMap((event) => {
      const outcome = schema.safeParse(event);
      if (outcome.success) return [outcome.data as T];
      const issue = outcome.error.issues[0];
      const problem = `${issue?.path.join(".") ?? ""}: ${issue?.message ?? "not readable"}`;
      unreadable.push({ account, eventId: idOf(event), problem, event });
      return [];
    });
  const events = read<UsageEvent>(AnyEvent, body.events);
  return { account, events, alerts: read(AnyAlert, body.alerts ?? []), gauges: body.gauges, unreadable };
}

/** Of an event or an alert. */
function idOf(event: unknown): string {
  const { eventId, id } = (event ?? {}) as { readonly eventId?: unknown; readonly id?: unknown };
  const text = eventId ?? id;
  return typeof text === "string" ? text.slice(0, 200) : "";
}
