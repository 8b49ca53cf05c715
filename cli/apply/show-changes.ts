/** Shows what a file changes, before it is changed. */
import type { Work } from "../command.ts";
import { safe } from "../show/safe.ts";
import type { Change, FieldChange } from "./change.ts";

const SIGNS = { make: "+", change: "~", drop: "-" } as const;

export async function showChanges(
  { print, given }: Work,
  changes: readonly Change[],
  wanted: number,
  rotated: readonly string[],
): Promise<void> {
  const touched = new Set(
    changes.filter(({ op }) => op !== "drop").map(({ kind, id }) => `${kind} ${id.split(" from ")[0]}`),
  );
  const unchanged = Math.max(0, wanted - touched.size);
  if (print.form === "json") {
    return print.json({
      dry_run: given.flag("dry-run"),
      changes: changes.map(({ op, kind, id, fields }) => ({ op, kind, id, fields })),
      unfinished_keys: rotated,
      unchanged,
    });
  }
  if (print.form === "csv") {
    return print.rows(
      [
        ["op", (row) => row.op],
        ["kind", (row) => row.kind],
        ["id", (row) => row.id],
        ["field", (row) => row.field],
        ["from", (row) => row.from],
        ["to", (row) => row.to],
      ],
      changes.flatMap(({ op, kind, id, fields }) =>
        (fields.length === 0 ? [{ field: "", to: undefined }] : fields).map((field) => ({
          op,
          kind,
          id,
          field: field.field,
          from: valueText((field as FieldChange).from),
          to: valueText(field.to),
        })),
      ),
    );
  }
  for (const { op, kind, id, fields } of changes) {
    await print.raw(`${SIGNS[op]} ${kind} ${safe(id)}\n`);
    for (const field of fields) await print.raw(`    ${safe(fieldText(field, op))}\n`);
  }
  for (const name of rotated)
    await print.raw(`~ key ${safe(name)}\n    (an earlier run was cut off: if it was made, it gets a new secret)\n`);
  await print.raw(
    changes.length === 0
      ? `Nothing to change: ${unchanged} as they are to be.\n`
      : `${summary(changes)}, ${unchanged} as they are.\n`,
  );
}

const fieldText = ({ field, from, to }: FieldChange, op: Change["op"]): string =>
  op === "make" ? `${field}: ${valueText(to)}` : `${field}: ${valueText(from)} -> ${valueText(to)}`;

const valueText = (value: unknown): string =>
  value === undefined || value === null ? "-" : typeof value === "object" ? JSON.stringify(value) : String(value);

function summary(changes: readonly Change[]): string {
  const count = (op: Change["op"]) => changes.filter((change) => change.op === op).length;
  return `${count("make")} to make, ${count("change")} to change, ${count("drop")} to delete`;
}
