/**
 * What a rule of the compute API is given, and what it decides. A rule is pure: the account object reads the facts in
 * one transaction, and stores the row and books the acts in the same one, before anything is sent upstream.
 *
 * Key, scope, role and the limits that a row names were checked before, and the body against its schema. A rule checks
 * in this order: what the body means (400), ids (404), `max_gpus` (429), state (409), money (402 or 429).
 */
import { type BudgetUse, budgetRefusal } from "../account/budgets.ts";
import { type Money, moneyRoom } from "../account/ledger.ts";
import type { AccountNumber } from "../ids.ts";
import { type Refused, refused } from "../outcome.ts";
import type { UnitPrices } from "../pricing/prices.ts";
import type { Refusal } from "../refusal.ts";
import type { ImageCall } from "./image-life.ts";
import type { ComputeRefusal } from "./refusals.ts";
import type { Act, Lengths } from "./rental.ts";
import {
  gpusOf,
  isMachine,
  type MachineRow,
  type MadeBy,
  type ResourceKind,
  type ResourceRow,
  type RowOf,
  type StorageKind,
} from "./resource.ts";
import type { RowCall } from "./wants.ts";

/** A region of upstream's availability list. */
export interface Region {
  readonly id: string;
  readonly gpuType: string;
  readonly gpusPerNode: number;
}

/** Price and cost of a GPU type (per GPU-hour) or of storage (per GB-day), with the account's plan applied. */
export interface GpuPrices {
  readonly price: UnitPrices;
  readonly cost: UnitPrices;
}

export interface Facts extends Lengths {
  readonly nowMs: number;
  readonly account: AccountNumber;
  /** Whether the account's seat may be another account's too. */
  readonly shared: boolean;
  /**
   * On a shared seat: references that the operator registered upstream. A launch there would pull with his credential.
   */
  readonly registered: readonly string[];
  /** The deployment's mark in tags. */
  readonly deployment: string;
  readonly by: MadeBy;
  /** The id and the six random base32 characters for a new row. */
  readonly nextId: number;
  readonly random: string;
  /** Of the SSH key in the body; null: the body has none. */
  readonly sshFingerprint: string | null;
  /** What lives of the account, of every kind, and the row that the path names. */
  readonly rows: readonly ResourceRow[];
  /** `max_gpus`; null: no limit. */
  readonly maxGpus: { readonly key: number | null; readonly team: number | null; readonly account: number | null };
  readonly money: Money;
  /**
   * The budgets that a hold must fit, narrowest first. For an extension: those of the calling key and those of the key
   * that launched.
   */
  readonly budgets: readonly BudgetUse[];
  readonly regions: readonly Region[];
  /** The regions that offer storage; read for the calls that make some. */
  readonly storageRegions: readonly string[];
  /** By GPU type; a type without a row is not sold. */
  readonly gpuPrices: ReadonlyMap<string, GpuPrices>;
  /** Per GB-day; a kind without a row is not sold. */
  readonly storagePrices: ReadonlyMap<StorageKind, GpuPrices>;
}

/** A row to store, with what to book for it. */
export interface Change {
  readonly row: ResourceRow;
  readonly acts: readonly Act[];
}

export type AnyCall = RowCall | ImageCall;

/** `also`: rows stored in the same transaction. `call`: what to send for `row` after all are stored; null: nothing. */
export type Decision =
  | (Change & { readonly ok: true; readonly also?: readonly Change[]; readonly call: AnyCall | null })
  | Refused;

export const refuse = (refusal: ComputeRefusal): Refused => refused({ kind: "compute", refusal });
export const invalid = (param: string, must: string): Refused =>
  refuse({ kind: "invalid", message: `\`${param}\` ${must}.`, param });

/** The account's own row of this kind. Unknown, another kind's, another account's: undefined, one 404. */
export function findRow<Kind extends ResourceKind>(
  { rows }: Pick<Facts, "rows">,
  kind: Kind,
  id: number,
): RowOf<Kind> | undefined {
  const row = rows.find((one) => one.kind === kind && one.id === id && one.create !== "refused");
  return row as RowOf<Kind> | undefined;
}

/** The first level without room for `more` GPUs. */
export function gpuRefusal({ rows, maxGpus, by }: Facts, more: number): Refused | undefined {
  if (more <= 0) return undefined;
  const levels = [
    { level: "key", allowed: maxGpus.key, counts: (row: MachineRow) => row.by.keyId === by.keyId },
    { level: "team", allowed: maxGpus.team, counts: (row: MachineRow) => row.by.teamId === by.teamId },
    { level: "account", allowed: maxGpus.account, counts: () => true },
  ] as const;
  for (const { level, allowed, counts } of levels) {
    if (allowed === null || (level === "team" && by.teamId === null)) continue;
    const used = rows
      .filter(isMachine)
      .filter(counts)
      .reduce((sum, row) => sum + gpusOf(row), 0);
    if (used + more > allowed) return refuse({ kind: "gpu_limit", level, allowed, used });
  }
  return undefined;
}

/** Whether a refusal is one that `moneyRefusal` gives. */
export const isShortOfMoney = (refusal: Refusal): boolean =>
  refusal.kind === "budget_spent" || (refusal.kind === "compute" && refusal.refusal.kind === "no_credit");

/** Why `amountNanoUsd` cannot be held. */
export function moneyRefusal({ money, budgets, nowMs }: Facts, amountNanoUsd: number): Refused | undefined {
  const room = moneyRoom(money);
  const budget: Refusal | undefined = budgetRefusal(budgets, amountNanoUsd, nowMs);
  if (amountNanoUsd > room) {
    return refuse({
      kind: "no_credit",
      neededNanoUsd: amountNanoUsd,
      availableNanoUsd: Math.max(0, room),
      heldNanoUsd: money.heldNanoUsd,
    });
  }
  return budget && refused(budget);
}
