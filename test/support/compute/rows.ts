/** A launched instance beside its books, and the documents that an upstream may show of it. */
import { openMachine } from "../../../src/core/compute/machine-rental.ts";
import type { MachineDocument, Observed } from "../../../src/core/compute/observe.ts";
import type { Rate } from "../../../src/core/compute/rental.ts";
import { type MachineRow, NOTHING_SEEN } from "../../../src/core/compute/resource.ts";
import { turned } from "../../../src/core/compute/wants.ts";
import type { KeyId } from "../../../src/core/ids.ts";
import { RentalBooks } from "./books.ts";

export const HOUR = 3_600_000;
export const DAY = 24 * HOUR;
export const LENGTHS = { hourMs: HOUR, dayMs: DAY };
export const SENT = 1_700_000_000_000;
export const RATE: Rate = { unit: "gpu_hours", size: 1, priceNanoUsd: 2_000_000_001, costNanoUsd: 1_500_000_000 };

export function launchedRow(hours: number | null, over: Partial<MachineRow> = {}): MachineRow {
  return {
    kind: "instance",
    id: 1000,
    tag: "tgabcdef-7-1000-aaaaaa",
    by: { keyId: "key_1" as KeyId, teamId: null, user: 3 },
    createdAtMs: SENT,
    changedAtMs: SENT,
    upstreamId: null,
    create: "unknown",
    hiddenAtMs: null,
    launched: {
      name: "trainer",
      regionId: "eu-1",
      gpuType: "H100",
      gpuCount: 1,
      interruptible: false,
      sshEnabled: false,
      sshPublicKey: null,
      sshFingerprint: null,
      templateId: null,
      drives: [],
      filesystems: [],
    },
    wants: {
      end: null,
      replicas: 1,
      setup: { containerImage: "img:1", startupCommand: null, initScript: null, servicePort: null },
      rebuild: null,
    },
    seen: NOTHING_SEEN,
    sending: null,
    rental: openMachine(RATE, hours).rental,
    ...over,
  };
}

export const shows = (state: MachineDocument["state"], over: Partial<MachineDocument> = {}): MachineDocument => ({
  upstreamId: 501,
  tag: "tgabcdef-7-1000-aaaaaa",
  state,
  reason: null,
  rateNanoUsd: RATE.costNanoUsd,
  startedAtMs: state === "pending" ? null : SENT + 2_000,
  terminatedAtMs: null,
  hours: null,
  replicas: null,
  ssh: null,
  jupyterUrl: null,
  ...over,
});

export class RowLife {
  row: MachineRow;
  readonly books: RentalBooks;

  constructor(hours: number | null, balance = 1_000_000_000_000, over: Partial<MachineRow> = {}) {
    this.row = launchedRow(hours, over);
    this.books = new RentalBooks(balance);
    this.books.book([{ act: "hold", n: 1, amountNanoUsd: this.row.rental.heldNanoUsd ?? 0 }]);
  }
  take({ row, acts }: Observed<MachineRow>): this {
    this.row = row;
    this.books.book(acts);
    return this;
  }
  turn(nowMs: number): this {
    const facts = { ...LENGTHS, roomNanoUsd: this.books.room, graceDays: 7, mounted: false };
    return this.take(turned(this.row, nowMs, facts));
  }
  get charged(): number {
    return this.books.stretches().reduce((sum, one) => sum + one.amountNanoUsd, 0);
  }
}
