/** A line of the ledger in the archive. Ids only: no note, no name. Fields that are null are left out. */
import * as z from "zod/mini";
import { ENTRY_KINDS, type EntryKind } from "../account/tenant.ts";
import type { PartLine } from "./part.ts";

export interface LedgerLine {
  readonly id: number;
  readonly kind: EntryKind;
  readonly amountNanoUsd: number;
  /** The balance after it. */
  readonly balanceNanoUsd: number;
  readonly atMs: number;
  readonly callId: string | null;
  readonly model: string | null;
  readonly keyId: string | null;
  readonly teamId: string | null;
  readonly reference: string | null;
  /** The time whose budget windows it counts in, where that is another. */
  readonly countsAtMs: number | null;
}

export function ledgerPartLine(line: LedgerLine): PartLine {
  const { id, kind, callId, amountNanoUsd: nanoUsd } = line;
  const text = JSON.stringify({
    id,
    kind,
    nano_usd: nanoUsd,
    balance_nano_usd: line.balanceNanoUsd,
    at_ms: line.atMs,
    ...set("call", callId),
    ...set("model", line.model),
    ...set("key", line.keyId),
    ...set("team", line.teamId),
    ...set("reference", line.reference),
    ...set("counts_at_ms", line.countsAtMs),
  });
  return { text, callId, nanoUsd };
}

const set = (name: string, value: string | number | null) => (value === null ? {} : { [name]: value });

const text = z.optional(z.string());
const Line = z.object({
  id: z.int().check(z.minimum(1)),
  kind: z.enum(ENTRY_KINDS),
  nano_usd: z.int(),
  balance_nano_usd: z.int(),
  at_ms: z.int(),
  call: text,
  model: text,
  key: text,
  team: text,
  reference: text,
  counts_at_ms: z.optional(z.int()),
});

/** Undefined for anything but such a line. */
export function readLedgerLine(value: unknown): LedgerLine | undefined {
  const outcome = Line.safeParse(value);
  if (!outcome.success) return undefined;
  const line = outcome.data;
  return {
    id: line.id,
    kind: line.kind,
    amountNanoUsd: line.nano_usd,
    balanceNanoUsd: line.balance_nano_usd,
    atMs: line.at_ms,
    callId: line.call ?? null,
    model: line.model ?? null,
    keyId: line.key ?? null,
    teamId: line.team ?? null,
    reference: line.reference ?? null,
    countsAtMs: line.counts_at_ms ?? null,
  };
}
