/** What the books keep of a call, as one value: its usage event and the later events that correct it. */
import type { CallDetail } from "../../core/account/call-trace.ts";
import { UNIT_NAMES, type Usage } from "../../core/pricing/usage.ts";
import { UNIT_COLUMNS } from "./usage-events.ts";

/** Where a row stands in the order of lists: by time, then by table and row. */
export interface Position {
  readonly atMs: number;
  /** 0: a call that was admitted; 1: one that was refused; 2: one in the archive. */
  readonly table: 0 | 1 | 2;
  readonly row: number;
}

/** Negative: `a` is newer. */
export const newerFirst = (a: Position, b: Position): number => b.atMs - a.atMs || b.table - a.table || b.row - a.row;

/** One usage event. */
export interface EventRow {
  readonly position: Position;
  readonly eventId: string;
  readonly late: boolean;
  readonly account: string;
  readonly team: string | null;
  readonly key: string;
  readonly endpoint: string;
  readonly model: string;
  readonly alias: string | null;
  readonly upstream: string | null;
  readonly targetModel: string | null;
  readonly region: string | null;
  readonly country: string | null;
  readonly outcome: string;
  readonly reason: string | null;
  readonly status: number;
  readonly source: string;
  readonly usage: Usage;
  readonly priceNanoUsd: number;
  readonly costNanoUsd: number;
  readonly overrunNanoUsd: number;
  readonly lossNanoUsd: number;
  readonly priceRule: string;
  readonly startedAtMs: number;
  readonly endedAtMs: number;
  readonly latencyMs: number;
  readonly firstByteMs: number | null;
  /** Null on events of before it was kept. */
  readonly detail: CallDetail | null;
}

/** A call: its events in order. The first has its names; the sums of all are its money. */
export interface CallRow extends EventRow {
  readonly parts: readonly EventRow[];
}

export type StoredEvent = Record<string, string | number | null>;

export function eventRowOf(stored: StoredEvent): EventRow {
  const text = (column: string) => String(stored[column] ?? "");
  const maybe = (column: string) => (stored[column] === null ? null : text(column));
  const number = (column: string) => Number(stored[column] ?? 0);
  const units = UNIT_NAMES.map((unit) => [unit, number(UNIT_COLUMNS[unit])] as const);
  return {
    position: { atMs: number("ended_ms"), table: 0, row: number("row") },
    eventId: text("event_id"),
    late: number("late") === 1,
    account: text("account"),
    team: maybe("team"),
    key: text("key"),
    endpoint: text("endpoint"),
    model: text("model"),
    alias: maybe("alias"),
    upstream: maybe("upstream"),
    targetModel: maybe("target_model"),
    region: maybe("region"),
    country: maybe("country"),
    outcome: text("outcome"),
    reason: maybe("reason"),
    status: number("status"),
    source: text("source"),
    usage: Object.fromEntries(units.filter(([, quantity]) => quantity !== 0)),
    priceNanoUsd: number("price_nano_usd"),
    costNanoUsd: number("cost_nano_usd"),
    overrunNanoUsd: number("overrun_nano_usd"),
    lossNanoUsd: number("loss_nano_usd"),
    priceRule: text("price_rule"),
    startedAtMs: number("started_ms"),
    endedAtMs: number("ended_ms"),
    latencyMs: number("latency_ms"),
    firstByteMs: stored.first_byte_ms === null ? null : number("first_byte_ms"),
    detail: stored.detail === null ? null : (JSON.parse(text("detail")) as CallDetail),
  };
}

/** The call of an event and what came later. A late end says how the call ended after all. */
export function callOf(first: EventRow, later: readonly EventRow[]): CallRow {
  const parts = [first, ...later];
  const sum = (of: (part: EventRow) => number) => parts.reduce((total, part) => total + of(part), 0);
  const units = UNIT_NAMES.map((unit) => [unit, sum(({ usage }) => usage[unit] ?? 0)] as const);
  const end = later.findLast(({ eventId }) => eventId.endsWith(".late")) ?? first;
  return {
    ...first,
    upstream: end.upstream,
    targetModel: end.targetModel,
    region: end.region,
    country: end.country ?? first.country,
    outcome: end.outcome,
    reason: end.reason,
    status: end.status,
    source: end.source,
    firstByteMs: end.firstByteMs,
    detail: end.detail ?? first.detail,
    usage: Object.fromEntries(units.filter(([, quantity]) => quantity !== 0)),
    priceNanoUsd: sum((part) => part.priceNanoUsd),
    costNanoUsd: sum((part) => part.costNanoUsd),
    overrunNanoUsd: sum((part) => part.overrunNanoUsd),
    lossNanoUsd: sum((part) => part.lossNanoUsd),
    latencyMs: sum((part) => part.latencyMs),
    parts,
  };
}

export interface CallFilter {
  readonly account?: string | undefined;
  readonly team?: string | undefined;
  readonly key?: string | undefined;
  readonly model?: string | undefined;
  readonly upstream?: string | undefined;
  readonly outcome?: string | undefined;
  readonly status?: number | undefined;
  readonly reason?: string | undefined;
  /** Inclusive; of the time at which calls ended. */
  readonly fromMs: number;
  /** Exclusive. */
  readonly toMs: number;
}
