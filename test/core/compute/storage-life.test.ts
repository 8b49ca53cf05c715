import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Observed, Shown } from "../../../src/core/compute/observe.ts";
import type { Act } from "../../../src/core/compute/rental.ts";
import type { StorageRow } from "../../../src/core/compute/resource.ts";
import { rowIsLive } from "../../../src/core/compute/rows.ts";
import {
  NO_STORAGE_SEEN,
  nextOfStorage,
  type StorageDocument,
  storageAnswered,
  storageInTransition,
  storageObserved,
  storageSent,
  storageStatus,
  takeBackStorage,
  turnedStorage,
  wantStorageEnd,
} from "../../../src/core/compute/storage-life.ts";
import { openStorage } from "../../../src/core/compute/storage-rental.ts";
import type { CallOutcome } from "../../../src/core/compute/wants.ts";
import type { KeyId } from "../../../src/core/ids.ts";
import { RentalBooks } from "../../support/compute/books.ts";
import { DAY, LENGTHS, SENT } from "../../support/compute/rows.ts";

const RATE = { unit: "storage_gb_days", size: 50, priceNanoUsd: 1_000, costNanoUsd: 700 } as const;
const TAG = "tgabcdef-7-1000-aaaaaa";

const PENDING = { state: "pending", createdAtMs: null, updatedAtMs: null } as const;

/** A drive beside its books. */
class Drive {
  row: StorageRow;
  readonly books: RentalBooks;

  constructor(balance = 1_000_000) {
    const opened = openStorage(RATE, SENT);
    this.row = {
      kind: "drive",
      id: 1000,
      tag: TAG,
      by: { keyId: "key_1" as KeyId, teamId: null, user: 3 },
      createdAtMs: SENT,
      changedAtMs: SENT,
      upstreamId: null,
      create: "unknown",
      hiddenAtMs: null,
      asked: { name: "disk", regionId: "eu-1", sizeGb: 50, mountPath: null },
      launch: null,
      wants: { end: null },
      seen: NO_STORAGE_SEEN,
      sending: null,
      rental: opened.rental,
    };
    this.books = new RentalBooks(balance);
    this.books.book(opened.acts);
  }
  take({ row, acts }: Observed<StorageRow>): readonly Act[] {
    this.row = row;
    this.books.book(acts);
    return acts;
  }
  shows(
    state: StorageDocument["state"],
    atMs: number,
    upstreamId = 501,
    times: { createdAtMs?: number; updatedAtMs?: number } = {},
  ): readonly Act[] {
    const document = { upstreamId, tag: TAG, state, createdAtMs: null, updatedAtMs: null, ...times };
    return this.sees({ kind: "found", document, sameUntilMs: null }, atMs);
  }
  sees(shown: Shown<StorageDocument>, atMs: number): readonly Act[] {
    return this.take(storageObserved(this.row, shown, atMs, atMs, LENGTHS));
  }
  turn(nowMs: number, mounted = false): this {
    this.take(turnedStorage(this.row, nowMs, { ...LENGTHS, roomNanoUsd: this.books.room, graceDays: 7, mounted }));
    return this;
  }
  end(nowMs: number): this {
    this.row = wantStorageEnd(this.row, "user", nowMs);
    return this;
  }
  deletes(outcome: CallOutcome<StorageDocument>, atMs: number): this {
    this.row = storageSent(this.row, { verb: "stop" }, atMs);
    this.take(storageAnswered(this.row, { verb: "stop" }, outcome, atMs, atMs, LENGTHS));
    return this;
  }
  created(outcome: CallOutcome<StorageDocument>, atMs: number) {
    const answered = storageAnswered(this.row, { verb: "create" }, outcome, SENT, atMs, LENGTHS);
    this.take(answered);
    return answered.refusal;
  }
  get status() {
    return storageStatus(this.row, false);
  }
}

describe("a create", () => {
  it("is charged its first day when upstream shows it available, in the answer or in a list", () => {
    const drive = new Drive();
    expect(drive.created({ kind: "done", document: { ...PENDING, upstreamId: 501, tag: TAG } }, SENT + 5)).toBeNull();
    expect([drive.status, drive.row.upstreamId, drive.books.held]).toEqual(["pending", 501, 1_000]);
    drive.shows("available", SENT + 2_000);
    expect([drive.status, drive.books.held, drive.books.charges.length]).toEqual(["available", 0, 1]);
  });

  it("answered with another's object adopts nothing: it is found by its tag", () => {
    const drive = new Drive();
    const document = { ...PENDING, upstreamId: 7, tag: "tgabcdef-8-1000-bbbbbb" };
    expect(drive.created({ kind: "done", document }, SENT + 5)).toBeNull();
    expect([drive.status, drive.row.upstreamId, drive.books.held]).toEqual(["pending", null, 1_000]);
  });

  it("that upstream refused leaves nothing: the hold is released, and no tenant sees the row", () => {
    for (const [outcome, refusal] of [
      [
        { kind: "refused", status: 409, text: "full" },
        { kind: "upstream_refused", status: 409, text: "full" },
      ],
      [
        { kind: "not_executed", retryAfterMs: 5 },
        { kind: "unavailable", retryAfterMs: 5 },
      ],
      [
        { kind: "operator_fault", status: 402 },
        { kind: "unavailable", retryAfterMs: null },
      ],
    ] as const) {
      const drive = new Drive();
      expect(drive.created(outcome, SENT + 5)).toEqual(refusal);
      expect([drive.books.held, drive.books.charges.length, rowIsLive(drive.row)]).toEqual([0, 0, false]);
    }
  });

  it("without an answer is adopted by its tag, or proven lost by two lists begun 120 s after it was sent", () => {
    const adopted = new Drive();
    expect(adopted.created({ kind: "unknown" }, SENT + 20_000)).toBeNull();
    adopted.sees({ kind: "absent" }, SENT + 119_999);
    adopted.sees({ kind: "absent" }, SENT + 120_000);
    adopted.shows("available", SENT + 125_000);
    expect([adopted.status, adopted.books.charges.length]).toEqual(["available", 1]);

    const lost = new Drive();
    lost.sees({ kind: "absent" }, SENT + 120_000);
    lost.sees({ kind: "absent" }, SENT + 120_000);
    expect(lost.status).toBe("pending");
    lost.sees({ kind: "absent" }, SENT + 125_000);
    expect([lost.status, lost.books.held, lost.books.charges.length, rowIsLive(lost.row)]).toEqual([
      "lost",
      0,
      0,
      false,
    ]);
    // Found after all: deleted, at the operator's cost.
    lost.shows("available", SENT + 130_000);
    expect(lost.books.events).toEqual(["late_orphan"]);
    expect(lost.books.losses).toEqual(new Map([[1, 700]]));
    expect(nextOfStorage(lost.row, SENT + 130_000)).toEqual({ do: "send", call: { verb: "stop" } });
    lost.shows("deleted", SENT + 140_000);
    expect([rowIsLive(lost.row), lost.books.charges.length]).toEqual([false, 0]);
  });

  it("of a launch that was refused is taken back, unless it was seen", () => {
    const drive = new Drive();
    drive.take(takeBackStorage(drive.row, SENT + 5, LENGTHS));
    expect([drive.books.held, rowIsLive(drive.row)]).toEqual([0, false]);
    const seen = new Drive();
    seen.shows("available", SENT + 5);
    expect(takeBackStorage(seen.row, SENT + 6, LENGTHS)).toEqual({ row: seen.row, acts: [] });
  });
});

describe("its days", () => {
  it("are counted from upstream's creation, which lies between our call and now", () => {
    for (const [createdAtMs, fromMs] of [
      [SENT + 300, SENT + 300],
      [SENT - 5, SENT],
      [SENT + 9_000, SENT + 2_000],
    ] as const) {
      const drive = new Drive();
      drive.shows("available", SENT + 2_000, 501, { createdAtMs });
      drive.shows("available", SENT + 5_000, 501, { createdAtMs: SENT + 4_000 });
      expect(drive.row.rental.createdAtMs).toBe(fromMs);
    }
  });

  it("of a delete that upstream took late are the operator's loss, by the time that upstream shows", () => {
    const deleted = (updatedAtMs: number | undefined, seenMs: number, deleting = true) => {
      const drive = new Drive();
      drive.shows("available", SENT + 1_000, 501, { createdAtMs: SENT + 10 });
      drive.turn(SENT + DAY + 10).end(SENT + DAY + 500);
      const times = updatedAtMs === undefined ? {} : { updatedAtMs };
      if (deleting) drive.shows("deleting", seenMs, 501, times);
      drive.shows("deleted", seenMs + 5 * DAY, 501, { updatedAtMs: updatedAtMs ?? seenMs });
      drive.turn(seenMs + 5 * DAY);
      return [drive.books.charges.length, [...drive.books.losses]];
    };
    expect(deleted(SENT + 2 * DAY, SENT + 2 * DAY + 100)).toEqual([2, []]);
    expect(deleted(SENT + 2 * DAY + 10, SENT + 2 * DAY + 100)).toEqual([2, [[3, 700]]]);
    expect(deleted(SENT + 4 * DAY + 10, SENT + 9 * DAY)).toEqual([2, [[3, 2_100]]]);
    expect(deleted(SENT + 4 * DAY + 10, SENT + 9 * DAY, false)).toEqual([2, [[3, 2_100]]]);
    // Seen when it was over: the delete was sent once, the day before.
    const over = new Drive();
    over.shows("available", SENT + 1_000);
    over.end(SENT + DAY - 500).deletes({ kind: "unknown" }, SENT + DAY - 400);
    over.shows("deleted", SENT + DAY + 3_000, 501, { updatedAtMs: SENT + DAY + 600 });
    expect([over.books.charges.length, over.books.losses.size]).toEqual([1, 0]);
    // A clock of upstream's that is wrong shifts it no further than to our request, or to now.
    expect(deleted(SENT - DAY, SENT + 3 * DAY)).toEqual([2, []]);
    expect(deleted(SENT + 99 * DAY, SENT + 3 * DAY)).toEqual([2, [[3, 700]]]);
    expect(deleted(undefined, SENT + 3 * DAY)).toEqual([2, [[3, 700]]]);
  });

  it("of one that was given up and found later are the operator's loss until its deletion is seen", () => {
    const lost = new Drive();
    lost.sees({ kind: "absent" }, SENT + 120_000);
    lost.sees({ kind: "absent" }, SENT + 125_000);
    lost.shows("available", SENT + DAY + 130_000, 501, { createdAtMs: SENT + 100 });
    expect([...lost.books.losses]).toEqual([[1, 1_400]]);
    lost.shows("deleted", SENT + 3 * DAY, 501, { updatedAtMs: SENT + 2 * DAY + 100 });
    expect([[...lost.books.losses], lost.books.charges]).toEqual([[[1, 2_100]], []]);
  });
});

describe("an end", () => {
  it("is asked for until upstream shows it deleted: 1 s, doubling to 60 s, once a minute while it is being deleted", () => {
    const drive = new Drive();
    drive.shows("available", SENT + 1_000);
    drive.end(SENT + 2_000).deletes({ kind: "unknown" }, SENT + 2_000);
    expect(nextOfStorage(drive.row, SENT + 2_500)).toEqual({ do: "wait", atMs: SENT + 3_000 });
    drive.deletes({ kind: "operator_fault", status: 403 }, SENT + 3_000);
    expect(nextOfStorage(drive.row, SENT + 3_000)).toEqual({ do: "wait", atMs: SENT + 5_000 });
    drive.shows("deleting", SENT + 4_000);
    expect(nextOfStorage(drive.row, SENT + 5_000)).toEqual({ do: "wait", atMs: SENT + 63_000 });
    expect([drive.status, storageInTransition(drive.row)]).toEqual(["deleting", true]);
    drive.shows("deleted", SENT + 6_000);
    expect([drive.status, storageInTransition(drive.row), rowIsLive(drive.row)]).toEqual(["deleted", false, false]);
    expect(nextOfStorage(drive.row, SENT + 9_000)).toEqual({ do: "none" });
  });

  it("is proven by two 404s a minute apart, not by one nor by absence from lists", () => {
    const drive = new Drive();
    drive.shows("available", SENT + 1_000);
    drive.end(SENT + 2_000).deletes({ kind: "not_found" }, SENT + 2_000);
    for (const s of [3, 60, 130, 200]) drive.sees({ kind: "absent" }, SENT + s * 1_000);
    drive.deletes({ kind: "not_found" }, SENT + 61_999);
    expect(drive.status).toBe("deleting");
    drive.deletes({ kind: "not_found" }, SENT + 62_000);
    expect(drive.status).toBe("deleted");
    expect(drive.books.charges).toHaveLength(1);
  });

  it("keeps the day that began and charges no later one", () => {
    const drive = new Drive();
    drive.shows("available", SENT + 1_000);
    drive.turn(SENT + DAY).turn(SENT + 2 * DAY);
    drive.end(SENT + 2 * DAY + 1).turn(SENT + 4 * DAY);
    drive.shows("deleted", SENT + 5 * DAY);
    drive.turn(SENT + 9 * DAY);
    expect(drive.books.charges.map(({ n }) => n)).toEqual([1, 2, 3]);
  });

  it("of what was lost upstream charges no further day, and nothing if it was never available", () => {
    const drive = new Drive();
    drive.shows("available", SENT + 1_000);
    drive.shows("lost", SENT + 2 * DAY - 1);
    drive.turn(SENT + 9 * DAY);
    expect([drive.status, drive.books.charges.length]).toEqual(["lost", 2]);
    const never = new Drive();
    never.shows("lost", SENT + 1_000);
    expect([never.status, never.books.charges.length, never.books.held]).toEqual(["lost", 0, 0]);
  });

  it.each(["lost", "deleted"] as const)(
    "that nobody asked for, of what a list showed %s and another shows again, deletes nothing: the operator may",
    (state) => {
      const drive = new Drive();
      drive.shows("available", SENT + 1_000);
      drive.shows(state, SENT + 2_000);
      drive.shows("available", SENT + 3_000);
      expect([drive.status, drive.books.events, rowIsLive(drive.row)]).toEqual([state, ["ended_runs"], true]);
      expect([nextOfStorage(drive.row, SENT + 4_000).do, storageInTransition(drive.row)]).toEqual(["none", false]);
      // What the service keeps it for is the operator's loss, once it is over.
      drive.end(SENT + 2 * DAY);
      expect(nextOfStorage(drive.row, SENT + 2 * DAY)).toEqual({ do: "send", call: { verb: "stop" } });
      drive.deletes({ kind: "unknown" }, SENT + 2 * DAY);
      drive.shows("deleted", SENT + 2 * DAY + 1_000);
      expect([drive.books.charges.length, drive.books.held, rowIsLive(drive.row)]).toEqual([1, 0, false]);
      expect(drive.books.losses.get(2)).toBe(2 * RATE.costNanoUsd);
    },
  );

  it("after the grace comes by itself, and never while it is mounted", () => {
    const drive = new Drive(1_000);
    drive.shows("available", SENT + 1_000);
    for (let day = 1; day <= 12; day++) drive.turn(SENT + day * DAY, day < 12);
    expect([drive.status, drive.row.wants.end]).toEqual([
      "deleting",
      { reason: "credit_depleted", askedMs: SENT + 12 * DAY },
    ]);
    expect(drive.books.events).toEqual(["storage.deleting", "storage.deleting", "storage.suspended"]);
    drive.shows("deleted", SENT + 12 * DAY + 5);
    drive.turn(SENT + 12 * DAY + 5);
    // The day that began at that very moment is upstream's too.
    expect([drive.books.charges.length, drive.books.losses.size]).toEqual([1, 12]);
    expect(rowIsLive(drive.row)).toBe(false);
  });
});

it("another drive with our tag, an old list and a document of before the delete change nothing", () => {
  const drive = new Drive();
  drive.shows("available", SENT + 10_000);
  const { row } = drive;
  expect(drive.shows("deleted", SENT + 11_000, 777)).toEqual([]);
  expect(drive.shows("deleted", SENT + 9_000)).toEqual([]);
  expect(drive.row).toEqual(row);
  drive.end(SENT + 20_000);
  drive.shows("available", SENT + 19_000);
  expect(drive.row.seen.askedAtMs).toBe(SENT + 10_000);
});

it("in any order of documents: charged once at most a day, one hold at most, what ended stays ended", () => {
  const states = fc.constantFrom("pending", "available", "deleting", "deleted", "lost", "absent", "end", "turn");
  fc.assert(
    fc.property(fc.array(fc.tuple(states, fc.integer({ min: 1, max: 2 * DAY })), { maxLength: 25 }), (acts) => {
      const drive = new Drive(5_000);
      let now = SENT;
      let over = false;
      for (const [act, ms] of acts) {
        now += ms;
        if (act === "end") drive.end(now);
        else if (act === "turn") drive.turn(now);
        else if (act === "absent") drive.sees({ kind: "absent" }, now);
        else drive.shows(act, now);
        if (over) expect(drive.row.seen.state).toBe("ended");
        over = drive.row.seen.state === "ended";
      }
      const days = drive.books.charges.map(({ n }) => n);
      expect(days).toEqual([...new Set(days)].sort((a, b) => a - b));
      const endMs = drive.row.rental.endMs ?? now;
      expect(days.length).toBeLessThanOrEqual(Math.max(1, Math.ceil((Math.min(now, endMs) - SENT + 1) / DAY)));
    }),
    { numRuns: 300 },
  );
});
