/** A registered image under lost answers, late executions, lying lists and crashes between the steps. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { ControlAnswer } from "../../../src/core/compute/control.ts";
import {
  abandonImage,
  type ImageCall,
  imageAnswered,
  imageInTransition,
  imageObserved,
  imageSent,
  isUnanswered,
  nextOfImage,
} from "../../../src/core/compute/image-life.ts";
import type { ImageRow } from "../../../src/core/compute/resource.ts";
import { rowIsLive, rowIsShown } from "../../../src/core/compute/rows.ts";
import { ownWords } from "../../../src/core/compute/upstream-text.ts";
import { launchedRow, SENT } from "../../support/compute/rows.ts";

const TAG = "tgabcdef-7-1000-aaaaaa";
const PAIR = { registry_username: "robot", registry_secret: "s3cret" };
const REGISTER: ImageCall = { verb: "register", image: { registry_url: "ghcr.io/a:1", ...PAIR } };
const change = (username: string | null, registryUrl = "ghcr.io/a:1"): Extract<ImageCall, { verb: "change" }> => ({
  verb: "change",
  image: PAIR,
  after: { name: "app", registryUrl, username },
  settled: true,
});

const row = (over: Partial<ImageRow> = {}): ImageRow => ({
  kind: "image",
  id: 1000,
  tag: TAG,
  by: launchedRow(null).by,
  createdAtMs: SENT,
  changedAtMs: SENT,
  upstreamId: null,
  create: "unknown",
  hiddenAtMs: null,
  name: "app",
  registryUrl: "ghcr.io/a:1",
  registryUsername: "robot",
  hasCredentials: true,
  settled: true,
  changingSinceMs: null,
  deletedAtMs: null,
  sending: null,
  gone: false,
  missing: { lists: 0, askedAtMs: 0 },
  ...over,
});
const made = (over: Partial<ImageRow> = {}) => row({ create: "done", upstreamId: 5, ...over });

const document = (over: Record<string, unknown> = {}) => ({
  id: 5,
  name: TAG,
  registry_url: "ghcr.io/a:1",
  registry_username: "robot",
  has_credentials: true,
  ...over,
});
const shown = (over: Partial<{ upstreamId: number; registryUrl: string; username: string | null }> = {}) => ({
  upstreamId: 5,
  tag: TAG,
  registryUrl: "ghcr.io/a:1",
  username: "robot",
  hasCredentials: true,
  ...over,
});
const answered = (status: number, body: unknown): ControlAnswer => ({
  kind: "answered",
  status,
  body: typeof body === "string" ? body : JSON.stringify(body),
  sentAtMs: SENT,
});
const UNKNOWN: ControlAnswer = { kind: "unknown", sentAtMs: SENT };
const NOT_SENT: ControlAnswer = { kind: "not_sent", why: "budget", retryAfterMs: 7_000 };
const apply = (before: ImageRow, call: ImageCall, answer: ControlAnswer, nowMs = SENT + 100) =>
  imageAnswered(before, call, answer, nowMs);

describe("a registration", () => {
  it("stands once upstream has it, and is seen by nobody before", () => {
    expect(rowIsShown(row())).toBe(false);
    const { row: after, refusal } = apply(row(), REGISTER, answered(201, document()));
    expect([refusal, after.create, after.upstreamId, rowIsShown(after)]).toEqual([null, "done", 5, true]);
  });

  it.each([
    ["400", answered(400, "no"), "upstream_refused"],
    ["409", answered(409, "no"), "upstream_refused"],
    ["401", answered(401, "no"), "unavailable"],
    ["404", answered(404, "no"), "unavailable"],
    ["503", answered(503, "no"), "unavailable"],
    ["a call that was not sent", NOT_SENT, "unavailable"],
  ])("that met %s leaves nothing", (_, answer, kind) => {
    const { row: after, refusal, follow } = apply(row(), REGISTER, answer);
    expect([refusal?.kind, after.create, rowIsLive(after), follow]).toEqual([kind, "refused", false, null]);
  });

  it.each([
    ["no answer", UNKNOWN],
    ["a broken one", answered(201, "<html>")],
    ["another's image", answered(201, document({ id: 9, name: "tgabcdef-8-1000-bbbbbb" }))],
    ["500", answered(500, "no")],
  ])("that met %s is looked for at once: found, or told", (_, answer) => {
    const asked = apply(row(), REGISTER, answer);
    expect(asked.follow).toEqual({ verb: "find", after: null });
    const find = asked.follow as ImageCall;
    const found = apply(asked.row, find, answered(200, [document({ name: "x", id: 1 }), document()]));
    expect([found.refusal, found.row.create]).toEqual([null, "done"]);
    for (const nothing of [answered(200, []), answered(200, "?"), answered(500, ""), UNKNOWN, NOT_SENT]) {
      const told = apply(asked.row, find, nothing);
      expect([told.refusal?.kind, rowIsShown(told.row), rowIsLive(told.row)]).toEqual(["unanswered", false, true]);
    }
  });

  it("that comes to exist after 504 is deleted, and a list has to show that it is gone", () => {
    const told = abandonImage(row(), SENT + 20_000);
    expect(isUnanswered(told, REGISTER)).toBe(true);
    for (const late of [
      imageObserved(told, shown(), SENT + 30_000, SENT + 30_001),
      apply(told, REGISTER, answered(201, document())).row,
    ]) {
      expect([rowIsShown(late), nextOfImage(late, SENT + 30_001)]).toEqual([
        false,
        { do: "send", call: { verb: "remove" } },
      ]);
    }
  });

  it("of a crash is adopted from a list, or lost after two lists of 120 s", () => {
    expect(rowIsShown(imageObserved(row(), shown(), SENT + 5_000, SENT + 5_001))).toBe(true);
    const early = imageObserved(row(), null, SENT + 119_999, SENT + 120_000);
    const once = imageObserved(early, null, SENT + 120_000, SENT + 120_001);
    const again = imageObserved(once, null, SENT + 120_000, SENT + 120_002);
    expect([rowIsLive(early), rowIsLive(once), rowIsLive(again)]).toEqual([true, true, true]);
    const lost = imageObserved(again, null, SENT + 125_000, SENT + 125_001);
    expect([lost.create, rowIsLive(lost)]).toEqual(["lost", false]);
    const late = imageObserved(lost, shown(), SENT + 500_000, SENT + 500_001);
    expect([rowIsLive(late), rowIsShown(late), nextOfImage(late, SENT + 500_001).do]).toEqual([true, false, "send"]);
  });
});

describe("a change", () => {
  const sending = (call: ImageCall) => imageSent(made(), call, SENT + 50);

  it("stands here once upstream took it, and not before", () => {
    const call = change("new");
    expect(sending(call)).toMatchObject({ registryUsername: "robot", settled: false });
    expect(isUnanswered(sending(call), call)).toBe(true);
    const { row: after } = apply(sending(call), call, answered(200, document({ registry_username: "new" })));
    expect(after).toMatchObject({ registryUsername: "new", settled: true, changingSinceMs: null });
  });

  it("that was refused leaves what was", () => {
    for (const answer of [answered(400, "no"), answered(404, ""), answered(503, ""), NOT_SENT]) {
      const { row: after, refusal } = apply(sending(change("new")), change("new"), answer);
      expect(refusal).not.toBeNull();
      expect(after).toMatchObject({ registryUsername: "robot", settled: true, changingSinceMs: null });
    }
  });

  it("without an answer is done if the list shows what is new in it, else 504", () => {
    const find = (call: ReturnType<typeof change>, listed: unknown) => {
      const asked = apply(sending(call), call, UNKNOWN);
      return apply(asked.row, asked.follow as ImageCall, answered(200, listed));
    };
    expect(find(change("new"), [document({ registry_username: "new" })]).refusal).toBeNull();
    expect(find(change(null), [document({ has_credentials: false, registry_username: undefined })]).refusal).toBeNull();
    expect(find(change("robot", "ghcr.io/b:1"), [document({ registry_url: "ghcr.io/b:1" })]).refusal).toBeNull();
    // A new secret alone cannot be seen.
    const unseen = find(change("robot"), [document()]);
    expect([unseen.refusal?.kind, unseen.row.settled]).toEqual(["unanswered", false]);
    expect(find(change("new"), [document()]).refusal?.kind).toBe("unanswered");
    expect(find(change("new"), []).refusal?.kind).toBe("unanswered");
  });

  it("that was lost is settled by a list of 120 s later, whatever it shows", () => {
    const unsure = { ...sending(change("new")), changingSinceMs: null };
    const early = imageObserved(unsure, shown({ username: "new" }), SENT + 60_000, SENT + 60_001);
    expect([early.registryUsername, early.settled, imageInTransition(early)]).toEqual(["new", false, true]);
    const late = imageObserved(early, shown({ username: "new" }), SENT + 120_050, SENT + 120_051);
    expect([late.registryUsername, late.settled, imageInTransition(late)]).toEqual(["new", true, false]);
  });

  it("is not undone by a list that was asked for before it", () => {
    const { row: after } = apply(sending(change("new")), change("new"), answered(200, document()));
    expect(imageObserved(after, shown(), SENT + 60, SENT + 200)).toBe(after);
  });
});

describe("a delete", () => {
  const REMOVE: ImageCall = { verb: "remove" };
  const sent = (nowMs = SENT + 10) => imageSent(made({ deletedAtMs: nowMs }), REMOVE, nowMs);

  it("is repeated, ever slower, until it is accepted and a list lacks it", () => {
    for (const answer of [answered(500, ""), answered(409, ""), UNKNOWN, NOT_SENT]) {
      const { row: after, refusal } = apply(sent(), REMOVE, answer);
      expect([refusal, nextOfImage(after, SENT + 500).do]).toEqual([null, "wait"]);
      expect(nextOfImage(after, SENT + 1_010)).toEqual({ do: "send", call: REMOVE });
    }
    for (const answer of [answered(204, ""), answered(404, "")]) {
      const accepted = apply(sent(), REMOVE, answer).row;
      expect([nextOfImage(accepted, SENT + 90_000).do, rowIsLive(accepted)]).toEqual(["none", true]);
      const still = imageObserved(accepted, shown(), SENT + 5_000, SENT + 5_001);
      expect(nextOfImage(still, SENT + 5_001).do).toBe("send");
      expect(rowIsLive(imageObserved(accepted, null, SENT + 5_000, SENT + 5_001))).toBe(false);
    }
  });

  it("is not proven by a list that lacks it before the delete was accepted", () => {
    expect(rowIsLive(imageObserved(sent(), null, SENT + 5_000, SENT + 5_001))).toBe(true);
  });
});

it("whatever comes in whatever order, a deleted one is never shown again, and one that exists is not forgotten", () => {
  const steps = fc.array(
    fc.record({ what: fc.constantFrom("list", "gap", "ok", "gone", "lost", "next"), afterMs: fc.nat(130_000) }),
    { maxLength: 30 },
  );
  fc.assert(
    fc.property(steps, (all) => {
      let now = imageSent(made({ deletedAtMs: SENT }), { verb: "remove" }, SENT);
      let atMs = SENT;
      for (const { what, afterMs } of all) {
        atMs += afterMs + 1;
        const next = nextOfImage(now, atMs);
        if (what === "list") now = imageObserved(now, shown(), atMs, atMs);
        else if (what === "gap") now = imageObserved(now, null, atMs, atMs);
        else if (what === "next" && next.do === "send") now = imageSent(now, next.call, atMs);
        else {
          const answer = { ok: answered(204, ""), gone: answered(404, ""), lost: UNKNOWN, next: UNKNOWN }[what];
          now = apply(now, { verb: "remove" }, answer, atMs).row;
        }
        expect(rowIsShown(now)).toBe(false);
        if (what === "list") expect(rowIsLive(now)).toBe(true);
      }
      expect(JSON.stringify(now)).not.toContain("s3cret");
    }),
  );
});

it("upstream's words name our rows by our names and ids", () => {
  const text = `Image 5 (${TAG}) and drive 5 and image 55 and 5 GPUs`;
  expect(ownWords(text, [made()])).toBe("Image 1000 (app) and drive 5 and image 55 and 5 GPUs");
});
