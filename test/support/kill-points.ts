/**
 * Named points at which a test stops the gateway for good. They stand in no source: a test's build
 * (`TEST_BUILD_PLUGIN`) sets a call to the test beside a line of each, and fails where a line has moved. At such a call
 * the test says to go on, or kills workerd while it waits.
 */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { Plugin } from "rolldown";

interface Point {
  /** Under src. */
  readonly file: string;
  /** Stands there once. */
  readonly line: string;
  readonly where: "before" | "after";
  /** An expression at that line: the point is there only while it is true. */
  readonly when?: string;
}

export const KILL_POINTS = {
  "after the hold": {
    file: "gateway/flows/carry-out.ts",
    line: "const sending = { route, routing, outputCap: hold.outputCap, reader };",
    where: "before",
  },
  "before the fetch": {
    file: "gateway/attempt.ts",
    line: "const answer = await ports.upstreams.send(",
    where: "before",
  },
  "mid stream": { file: "gateway/stream/relay.ts", line: "sound = await passage.take(value);", where: "after" },
  "usage seen": {
    file: "gateway/flows/deliver.ts",
    line: "const { outcome, whole, firstByteAtMs, passedBroken } = await stream.ended;",
    where: "after",
  },
  "before its end is told": {
    file: "gateway/account-client.ts",
    line: 'const told = end.kind === "settle" ?',
    where: "before",
  },
  settled: { file: "gateway/settle.ts", line: "if (reading.lowInput) {", where: "before" },
  "outbox written": { file: "platform/account/shipping.ts", line: "await send({ account: taken", where: "before" },
  "consumer wrote": { file: "platform/queue/usage.ts", line: "for (const one of part) await finish(", where: "before" },
  "in an alarm": { file: "platform/account/shipping.ts", line: 'await attempt("prune"', where: "before" },
} as const satisfies Record<string, Point>;

const COMPUTE = "platform/account/compute/compute.ts";
const LISTS = "platform/broker/lists.ts";
/** Those on the way of a rented machine. */
export const RENTAL_KILL_POINTS = {
  // Its row and its money are stored, and nothing was sent.
  held: { file: COMPUTE, line: "const sending = this.#send(send.placed,", where: "before" },
  // The alarm repeats a call: stored, and not sent.
  repeating: {
    file: COMPUTE,
    line: "if (wanted) await this.#send(wanted.placed, wanted.call);",
    where: "before",
    when: "wanted",
  },
  // Upstream did it, and its answer was not read.
  sent: {
    file: "platform/broker/control-client.ts",
    line: "const text = await (isList && response.status === 200 ? listText(response) : boundedText(response));",
    where: "before",
    when: 'method !== "GET"',
  },
  // The answer came, and was not taken in.
  answered: {
    file: COMPUTE,
    line: "const { refusal, follow } = this.#apply(row.id, call, answer, of.repeat);",
    where: "before",
    when: 'call.verb !== "read"',
  },
  // It was taken in, and the tenant has not heard of it.
  applied: { file: COMPUTE, line: "if (refusal) return refuse(refusal);", where: "before" },
  // An inference instance by the hour has its rental, and the operator's books have no row of it.
  begun: { file: "api/operator/instances.ts", line: "const rental = begun?.rental ?? null;", where: "before" },
  turning: { file: COMPUTE, line: "const free = (due ?? []).filter(", where: "before" },
  listed: { file: LISTS, line: "tables.see(kind, listed);", where: "after" },
  told: { file: LISTS, line: "reportUnknown(kind, unknown, tables, ports.upstream);", where: "after" },
} as const satisfies Record<string, Point>;

/** Those on the way of calls that were admitted out of a lease. */
export const LEASE_KILL_POINTS = {
  // Calls were admitted and answered, and their object has not heard of them.
  "before a report": {
    file: "gateway/leases.ts",
    line: "const answer = await retry(() => askOnce(ports, account, (object) => object.report(sent.report)), again);",
    where: "before",
  },
  // It was taken in, and its isolate does not know.
  "report taken in": {
    file: "platform/account/object.ts",
    line: "for (const settlement of taken?.unknown ?? []) await settleUnknown(",
    where: "before",
    when: "report.calls.length > 0",
  },
} as const satisfies Record<string, Point>;

/** Those on the way of an alert. */
export const ALERT_KILL_POINTS = {
  // It is in the books, and its deliveries are in no queue.
  "alerts stored": {
    file: "platform/webhooks/raise.ts",
    line: "if (deliveries > 0) await queueDue(env, nowMs)",
    where: "before",
    when: "deliveries > 0",
  },
  claimed: { file: "platform/webhooks/deliver.ts", line: "const sent = await send(", where: "before" },
  // Its receiver has it, and the books do not know.
  received: {
    file: "platform/webhooks/deliver.ts",
    line: "if (sent.problem !== null) return failed(",
    where: "before",
  },
} as const satisfies Record<string, Point>;

const ARCHIVER = "platform/account/archiver.ts";
/** Those on the way of a ledger's lines into the archive, and of charges out of the object. */
export const ARCHIVE_KILL_POINTS = {
  // The part has its row, and was not put.
  planned: { file: ARCHIVER, line: "const kept = await keepPart(bucket, made.part, made.bytes);", where: "before" },
  // It was put and read back, and its row does not say so.
  put: { file: ARCHIVER, line: 'return kept.kind === "kept" ? this.#keep(made.part', where: "before" },
  // A part was kept, and nothing of it was folded yet.
  matched: {
    file: ARCHIVER,
    line: "for (let done = 0; done < FOLDS_PER_RUN; done++) {",
    where: "after",
    when: "done === 0",
  },
  // Some charges of a part were folded, and not all.
  folded: {
    file: ARCHIVER,
    line: "for (let done = 0; done < FOLDS_PER_RUN; done++) {",
    where: "after",
    when: "done > 0",
  },
} as const satisfies Record<string, Point>;

const CALL_WRITER = "platform/archive/call-writer.ts";
/** Those on the way of usage events from the books into the archive. */
export const CALL_ARCHIVE_KILL_POINTS = {
  "calls planned": {
    file: CALL_WRITER,
    line: "const kept = await keepPart(bucket, made.part, made.bytes);",
    where: "before",
  },
  "calls put": { file: CALL_WRITER, line: 'if (kept.kind !== "kept") return {', where: "before" },
  // All parts of an hour are kept, and the mark behind which events may leave has not moved.
  "calls kept": { file: CALL_WRITER, line: "whole = whole && (await advance(books, hourMs));", where: "before" },
  "calls leave": {
    file: "platform/d1/usage-retention.ts",
    line: "if (untilMs === null || (await deleteOldUsage(",
    where: "before",
    when: "untilMs !== null",
  },
} as const satisfies Record<string, Point>;

const ALL_POINTS: Readonly<Record<string, Point>> = {
  ...KILL_POINTS,
  ...RENTAL_KILL_POINTS,
  ...LEASE_KILL_POINTS,
  ...ALERT_KILL_POINTS,
  ...ARCHIVE_KILL_POINTS,
  ...CALL_ARCHIVE_KILL_POINTS,
};
export type ArchivePoint = keyof typeof ARCHIVE_KILL_POINTS;
export type CallArchivePoint = keyof typeof CALL_ARCHIVE_KILL_POINTS;
export type RentalPoint = keyof typeof RENTAL_KILL_POINTS;
export type AlertPoint = keyof typeof ALERT_KILL_POINTS | "settled" | "outbox written" | "consumer wrote";
export type LeasePoint = keyof typeof LEASE_KILL_POINTS;
export type PointName =
  | keyof typeof KILL_POINTS
  | LeasePoint
  | RentalPoint
  | AlertPoint
  | ArchivePoint
  | CallArchivePoint;

export const pointsIn = (file: string): readonly Point[] =>
  Object.values(ALL_POINTS).filter((point) => point.file === file);

const OBSERVE = "core/compute/observe.ts";
const DELIVERIES = "platform/d1/deliveries.ts";
/**
 * What takes minutes takes seconds: to send again what was not confirmed, to give up a launch, to repeat an extension,
 * to take up a delivery that broke off.
 */
const QUICKER = [
  {
    file: "platform/account/tables/outbox.ts",
    from: "RESEND_AFTER_MS = 120_000",
    to: "RESEND_AFTER_MS = 1_000",
  },
  { file: DELIVERIES, from: "QUEUED_MS = 120_000", to: "QUEUED_MS = 1_000" },
  { file: DELIVERIES, from: "CLAIMED_MS = 60_000", to: "CLAIMED_MS = 1_000" },
  { file: OBSERVE, from: "CREATE_PROOF_MS = 120_000", to: "CREATE_PROOF_MS = 4_000" },
  { file: OBSERVE, from: "EXTEND_PROOF_MS = 60_000", to: "EXTEND_PROOF_MS = 4_000" },
] as const;

/** The archive's hours take seconds, in the one test that waits for them (`QUICK_ARCHIVE`). */
const QUICKER_ARCHIVE = [
  { file: "core/archive/part.ts", from: "HOUR_MS = 3_600_000", to: "HOUR_MS = 3_000" },
  { file: "core/archive/cut.ts", from: "LEAST_AGE_MS = 26 * HOUR_MS", to: "LEAST_AGE_MS = 1_000" },
  { file: "core/archive/cut.ts", from: "FOLDED_AT_ONCE = 2_000", to: "FOLDED_AT_ONCE = 2" },
  { file: "platform/d1/usage-events.ts", from: "HOUR_MS = 3_600_000", to: "HOUR_MS = 3_000" },
  { file: "platform/d1/usage-hours.ts", from: "GRACE_MS = 10 * 60_000", to: "GRACE_MS = 500" },
  { file: ARCHIVER, from: "FIRST_RETRY_MS = 30_000", to: "FIRST_RETRY_MS = 500" },
  { file: ARCHIVER, from: "HOLDS_LEAVE_MS = 600_000", to: "HOLDS_LEAVE_MS = 500" },
  {
    file: "platform/account/tables/holds.ts",
    from: "ENDED_SOONER_MS = 24 * 3_600_000",
    to: "ENDED_SOONER_MS = 25 * 3_600_000 - 500",
  },
] as const;

/** Every call to a test begins with this: what a build without them must not contain. */
export const TRACE = "/kill-point/";

const call = (name: string, when: string | undefined, url: string): string =>
  `${when ? ` if (${when})` : ""} await (await fetch(${JSON.stringify(url + TRACE + encodeURIComponent(name))})).text(); `;

/** The file with its points in place. */
export function withPoints(file: string, source: string, url: string, quickArchive = true): string {
  let text = source;
  for (const { file: of, from, to } of quickArchive ? QUICKER_ARCHIVE : []) {
    if (of === file) text = replaceOnce(file, text, from, to);
  }
  for (const { file: of, from, to } of QUICKER) if (of === file) text = replaceOnce(file, text, from, to);
  for (const [name, { file: of, line, where, when }] of Object.entries(ALL_POINTS)) {
    if (of !== file) continue;
    const stop = call(name, when, url);
    text = replaceOnce(file, text, line, where === "before" ? stop + line : line + stop);
  }
  return text;
}

function replaceOnce(file: string, text: string, from: string, to: string): string {
  const pieces = text.split(from);
  if (pieces.length !== 2) throw new Error(`src/${file} has this ${pieces.length - 1} times, not once: ${from}`);
  return pieces.join(to);
}

export const FILES: ReadonlySet<string> = new Set([
  ...[...QUICKER, ...QUICKER_ARCHIVE, ...Object.values(ALL_POINTS)].map(({ file }) => file),
]);

const plugin: Plugin = {
  name: "kill-points",
  transform: {
    filter: { id: /\/src\/(api|core|gateway|platform)\/.*\.ts$/ },
    handler(source, id) {
      const url = process.env.KILL_SWITCH_URL;
      if (!url) throw new Error("KILL_SWITCH_URL is not set");
      const file = id.slice(id.lastIndexOf("/src/") + "/src/".length);
      return FILES.has(file) ? withPoints(file, source, url, process.env.QUICK_ARCHIVE === "1") : undefined;
    },
  },
};
export default plugin;

/** Hears of each point that the gateway comes to. */
export class KillSwitch {
  readonly url: string;
  readonly #server: Server;
  #armed: { name: string; after: number; reached: () => void } | undefined;

  private constructor(server: Server) {
    this.#server = server;
    this.url = `http://localhost:${(server.address() as AddressInfo).port}`;
  }

  static async start(): Promise<KillSwitch> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const killSwitch = new KillSwitch(server);
    server.on("request", (request, response) => {
      // The one who waits here is not to go on.
      if (killSwitch.#isReached(decodeURIComponent((request.url ?? "").slice(TRACE.length)))) return;
      response.end();
    });
    return killSwitch;
  }

  /** Resolves when the gateway stands at this point, after it has passed it so many times. */
  armed(name: PointName, after = 0): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#armed = { name, after, reached: resolve };
    return promise;
  }

  stop(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  #isReached(name: string): boolean {
    const armed = this.#armed;
    if (armed?.name !== name) return false;
    if (armed.after > 0) {
      armed.after -= 1;
      return false;
    }
    this.#armed = undefined;
    armed.reached();
    return true;
  }
}
