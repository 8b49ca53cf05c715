/**
 * `/admin/export`: an account's month of ledger lines or calls, of any size, as the archive has them. Each line has a
 * cursor: a reader that was cut off goes on behind the last whole line that it has. One block is in memory at a time.
 */
import * as z from "zod/mini";
import { BLOCK_LINES, type PartRecord } from "../../core/archive/part.ts";
import { readBlock } from "../../platform/archive/bucket.ts";
import { listCallParts } from "../../platform/d1/call-parts.ts";
import { UNIT_COLUMNS } from "../../platform/d1/usage-events.ts";
import type { AdminRoutes, OperatorContext } from "../kit/context.ts";
import { theAccount } from "../kit/context.ts";
import { type Cell, csvLine } from "../kit/csv.ts";
import { conflict } from "../kit/problem.ts";
import { answers, route } from "../kit/route.ts";
import { monthOf } from "../kit/statement.ts";

const CURSOR = /^(\d{1,9})-(\d{1,5})$/;

/** The columns of CSV; JSON lines have those that are set. */
const COLUMNS = {
  ledger: "id kind nano_usd balance_nano_usd at_ms call model key team reference counts_at_ms".split(" "),
  calls: [
    ..."event_id late account team key endpoint model alias upstream target_model region country outcome".split(" "),
    ..."reason status source low_input".split(" "),
    ...Object.values(UNIT_COLUMNS),
    ..."price_nano_usd cost_nano_usd overrun_nano_usd loss_nano_usd price_rule started_ms ended_ms".split(" "),
    ..."latency_ms first_byte_ms detail".split(" "),
  ],
} as const;

const exported = route({
  id: "exportLines",
  method: "get",
  path: "/admin/export",
  roles: { finance: "all" },
  summary: "Stream a month of an account's ledger or calls from the archive: hours that are over, JSON Lines or CSV",
  query: z.strictObject({
    kind: z.enum(["ledger", "calls"]),
    account: z.string(),
    month: z.optional(z.string()).check(z.describe("Of UTC, such as `2026-11`; this one where absent")),
    format: z._default(z.enum(["jsonl", "csv"]), "jsonl"),
    cursor: z
      .optional(z.string().check(z.regex(CURSOR, "must be the `cursor` of a line")))
      .check(z.describe("Of the last line that came: goes on behind it")),
  }),
  answers: { 200: answers("One JSON object a line, with its `cursor`", z.object({ cursor: z.string() })) },
  alsoAs: "text/csv",
  refusals: [404, 409],
});

export function addExport(api: AdminRoutes): void {
  api.add(exported, async ({ work: context, query }) => {
    const { archive } = context;
    const month = monthOf(query.month, context.now());
    const parts = await partsOf(context, query.kind, query.account, month);
    if (!archive) throw conflict("archive_not_configured", "This deployment has no archive to export from.", null);
    const [, n = "0", line = "-1"] = CURSOR.exec(query.cursor ?? "") ?? [];
    const lines = linesFrom(archive, parts, Number(n), Number(line));
    const columns = query.format === "csv" ? COLUMNS[query.kind] : null;
    return new Response(streamOf(lines, columns), {
      headers: {
        "content-type": columns ? "text/csv; charset=utf-8" : "application/x-ndjson",
        "content-disposition": `attachment; filename="${query.account}-${query.kind}-${month.name}.${query.format}"`,
        "cache-control": "no-store",
      },
    });
  });
}

type PartsAfter = (n: number) => Promise<readonly PartRecord[]>;

async function partsOf(
  context: OperatorContext,
  kind: "ledger" | "calls",
  account: string,
  { fromMs, toMs }: { readonly fromMs: number; readonly toMs: number },
): Promise<PartsAfter> {
  const { row, object } = await theAccount(context, account);
  if (kind === "calls") return (n) => listCallParts(context.books, row.number, { n, fromMs, toMs });
  return async (after) => (await object.ledgerParts({ after, fromMs, toMs })) ?? [];
}

type Block = readonly { readonly cursor: string; readonly value: Readonly<Record<string, unknown>> }[];

/** Block by block, behind a line of a part. */
async function* linesFrom(bucket: R2Bucket, partsAfter: PartsAfter, n: number, line: number): AsyncGenerator<Block> {
  for (let after = Math.max(0, n - 1); ; ) {
    const parts = await partsAfter(after);
    for (const part of parts) {
      after = part.n;
      let at = 0;
      for (const block of part.blocks.keys()) {
        const first = at;
        at = Math.min(part.lines, at + BLOCK_LINES);
        if (part.n === n && at <= line + 1) continue;
        const values = await readBlock(bucket, part, block);
        yield values
          .map((value, index) => ({ cursor: `${part.n}-${first + index}`, value: value as Record<string, unknown> }))
          .slice(part.n === n ? Math.max(0, line + 1 - first) : 0);
      }
    }
    if (parts.length === 0) return;
  }
}

function streamOf(blocks: AsyncGenerator<Block>, columns: readonly string[] | null): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  const textOf = (block: Block): string =>
    block
      .map(({ cursor, value }) =>
        columns
          ? csvLine([cursor, ...columns.map((column) => cellOf(value[column]))])
          : `${JSON.stringify({ cursor, ...value })}\n`,
      )
      .join("");
  return new ReadableStream<Uint8Array>({
    start(controller) {
      if (columns) controller.enqueue(encoder.encode(csvLine(["cursor", ...columns])));
    },
    async pull(controller) {
      const { value, done } = await blocks.next();
      if (done) controller.close();
      else controller.enqueue(encoder.encode(textOf(value)));
    },
    cancel: async () => void (await blocks.return(undefined)),
  });
}

const cellOf = (value: unknown): Cell =>
  typeof value === "number" || typeof value === "string" ? value : value === undefined ? null : JSON.stringify(value);
