/** The audit's rules. Each rule is a query that returns the ids of offending rows within one slice of a table. */
import type { Sql } from "./schema.ts";

/** Examples listed per breach. */
export const EXAMPLES = 5;

/** The breaches found, with a few examples of each. */
export class Findings {
  readonly #byRule = new Map<string, (string | number)[]>();

  add(rule: string, offenders: Iterable<{ id: string | number }>): void {
    const known = this.#byRule.get(rule) ?? [];
    for (const { id } of offenders) if (known.length < EXAMPLES) known.push(id);
    if (known.length > 0) this.#byRule.set(rule, known);
  }

  problems(): string[] {
    return [...this.#byRule].map(([rule, ids]) => `${rule}: ${ids.join(", ")}`);
  }
}

interface Rule {
  readonly rule: string;
  /** Builds the query. `slice` is the SQL for the rows to check. */
  readonly offenders: (slice: string) => string;
}

/**
 * Walks the ledger from its first entry that is whole: running sums, and whether each entry is in order. What was
 * folded before it counts by the sums that it left; `foldedRules` checks those.
 */
export class EntryWalk {
  readonly #sql: Sql;
  readonly #findings: Findings;
  #throughId = 0;
  nanoUsd = 0;
  /** Charged by calls and rentals, less what corrections of them gave back. */
  chargedNanoUsd = 0;

  constructor(sql: Sql, findings: Findings) {
    this.#sql = sql;
    this.#findings = findings;
    const { through, balance } = sql
      .exec<{ through: number | null; balance: number | null }>(
        "SELECT max(last_id) AS through, balance_nano_usd AS balance FROM parts WHERE state = 'folded'",
      )
      .one();
    this.#throughId = through ?? 0;
    this.nanoUsd = balance ?? 0;
    this.chargedNanoUsd = 0 - sumOf(sql, `SELECT nano_usd AS value FROM folded`);
    this.chargedNanoUsd -= sumOf(
      sql,
      `SELECT amount_nano_usd AS value FROM entries WHERE ${CHARGES} AND id <= ${this.#throughId}`,
    );
    for (const { rule, offenders } of PART_RULES) {
      findings.add(rule, sql.exec<{ id: number }>(`${offenders("true")} LIMIT ${EXAMPLES}`));
    }
  }

  /** Checks the next `count` entries. Returns true if there are more. */
  step(count: number): boolean {
    const from = this.#throughId;
    const through = from + count;
    const running = this.#sql.exec<{ id: number }>(
      `SELECT id FROM (SELECT id, balance_nano_usd AS said, ?3 + sum(amount_nano_usd) OVER (ORDER BY id) AS true_sum
         FROM entries WHERE id > ?1 AND id <= ?2) WHERE said <> true_sum LIMIT ${EXAMPLES}`,
      from,
      through,
      this.nanoUsd,
    );
    this.#findings.add("an entry's running balance is wrong", running);
    for (const { rule, offenders } of ENTRY_RULES) {
      const query = `${offenders("entries.id > ?1 AND entries.id <= ?2")} LIMIT ${EXAMPLES}`;
      this.#findings.add(rule, this.#sql.exec<{ id: number }>(query, from, through));
    }
    const sums = this.#sql
      .exec<{ all_of: number; charges: number }>(
        `SELECT coalesce(sum(amount_nano_usd), 0) AS all_of,
           coalesce(sum(amount_nano_usd) FILTER (WHERE ${CHARGES}), 0) AS charges
         FROM entries WHERE id > ? AND id <= ?`,
        from,
        through,
      )
      .one();
    this.nanoUsd += sums.all_of;
    this.chargedNanoUsd -= sums.charges;
    this.#throughId = through;
    const last = this.#sql.exec<{ id: number | null }>("SELECT max(id) AS id FROM entries").one().id ?? 0;
    // Stop at the last entry read, so that entries added later are not skipped.
    if (last <= through) this.#throughId = last;
    return last > through;
  }
}

/** What calls and rentals were charged, and what corrections of them gave back. */
const CHARGES = "(kind = 'charge' OR (call_id IS NOT NULL AND reference IS NULL))";

const sumOf = (sql: Sql, values: string): number =>
  sql.exec<{ sum: number }>(`SELECT coalesce(sum(value), 0) AS sum FROM (${values})`).one().sum;

/** The parts of the ledger follow each other, and what left of each is what it has less what stayed. */
const PART_RULES: readonly Rule[] = [
  {
    rule: "a part of the archive does not go on from the one before",
    offenders: () => `SELECT n AS id FROM (SELECT n, first_id, lines, last_id, nano_usd, balance_nano_usd,
        lag(last_id, 1, 0) OVER (ORDER BY n) AS before, lag(balance_nano_usd, 1, 0) OVER (ORDER BY n) AS stood FROM parts)
      WHERE first_id <> before + 1 OR lines <> last_id - before OR balance_nano_usd <> stood + nano_usd`,
  },
  {
    rule: "what was folded of a part and what stayed is not what it has",
    offenders: () => `SELECT n AS id FROM parts WHERE state = 'folded' AND (lines, nano_usd) <> (
      SELECT folded_lines + count(*), folded_nano_usd + coalesce(sum(amount_nano_usd), 0)
      FROM entries WHERE id BETWEEN first_id AND last_id)`,
  },
  {
    rule: "the folded sums are not those of the parts",
    offenders: () => `SELECT 0 AS id WHERE (SELECT coalesce(sum(nano_usd), 0) FROM folded)
      <> (SELECT coalesce(sum(folded_nano_usd), 0) FROM parts)`,
  },
  {
    rule: "a part of the archive ends at another balance than the ledger",
    offenders: () => `SELECT n AS id FROM parts CROSS JOIN entries ON entries.id = last_id
      WHERE entries.balance_nano_usd <> parts.balance_nano_usd`,
  },
];

const ENTRY_RULES: readonly Rule[] = [
  {
    rule: "a charge adds money and corrects no other, or names no call",
    offenders: (slice) => `SELECT id FROM entries WHERE ${slice} AND kind = 'charge'
      AND (call_id IS NULL OR (amount_nano_usd > 0 AND counts_at_ms IS NULL))`,
  },
  {
    rule: "an entry of a call is not one that its hold knows",
    offenders: (slice) => `SELECT entries.id FROM entries CROSS JOIN holds ON holds.call_id = entries.call_id
      WHERE ${slice} AND reference IS NULL AND entries.id IS NOT entry_id AND entries.id IS NOT late_entry_id
        AND NOT (entries.kind = 'correction' AND rental IS NOT NULL AND state = 'settled')`,
  },
];

/** A table whose rows are checked in the order of a text key. */
export class RowTable {
  readonly #table: string;
  readonly #key: string;
  readonly #rules: readonly Rule[];

  constructor(table: string, key: string, rules: readonly Rule[]) {
    this.#table = table;
    this.#key = key;
    this.#rules = rules;
  }

  /** The key of the last of the next `count` rows; null if there are fewer rows. */
  keyAfter(sql: Sql, after: string, count: number): string | null {
    const [row] = sql
      .exec<{ key: string }>(
        `SELECT ${this.#key} AS key FROM ${this.#table} WHERE ${this.#key} > ? ORDER BY ${this.#key} LIMIT 1 OFFSET ?`,
        after,
        count - 1,
      )
      .toArray();
    return row?.key ?? null;
  }

  /** Checks the rows after `after` up to and including `through`; null: to the end. */
  check(sql: Sql, after: string, through: string | null, findings: Findings): void {
    const key = `${this.#table}.${this.#key}`;
    const slice = through === null ? `${key} > ?1` : `${key} > ?1 AND ${key} <= ?2`;
    const bounds = through === null ? [after] : [after, through];
    for (const { rule, offenders } of this.#rules) {
      findings.add(rule, sql.exec<{ id: string }>(`${offenders(slice)} LIMIT ${EXAMPLES}`, ...bounds));
    }
  }
}

const HOLDS = new RowTable("holds", "call_id", [
  {
    rule: "a settled hold has no entry of its amount",
    offenders: (slice) => `SELECT holds.call_id AS id FROM holds LEFT JOIN entries ON entries.id = holds.entry_id
      WHERE ${slice} AND state = 'settled'
        AND (entries.call_id IS NOT holds.call_id OR entries.amount_nano_usd <> -charged_nano_usd)`,
  },
  {
    rule: "an open or released hold has a charge or an entry",
    offenders: (slice) => `SELECT call_id AS id FROM holds WHERE ${slice} AND state IN ('open', 'released')
      AND (charged_nano_usd <> 0 OR entry_id IS NOT NULL OR late_entry_id IS NOT NULL)`,
  },
  {
    rule: "an expired hold's entries are not what it was charged",
    offenders: (slice) => `SELECT holds.call_id AS id FROM holds
      LEFT JOIN entries AS first ON first.id = entry_id LEFT JOIN entries AS late ON late.id = late_entry_id
      WHERE ${slice} AND state = 'expired'
        AND (charged_nano_usd <> -coalesce(first.amount_nano_usd, 0) - coalesce(late.amount_nano_usd, 0)
          OR (entry_id IS NOT NULL AND first.call_id IS NOT holds.call_id)
          OR (late_entry_id IS NOT NULL AND late.call_id IS NOT holds.call_id))`,
  },
  {
    rule: "an expired hold has no operator's loss",
    offenders: (slice) => `SELECT call_id AS id FROM holds WHERE ${slice} AND state = 'expired' AND NOT EXISTS
      (SELECT 1 FROM operator_book WHERE operator_book.call_id = holds.call_id AND kind = 'operator_loss')`,
  },
]);

const JOBS = new RowTable("jobs", "id", [
  {
    rule: "a job that ended still holds money",
    offenders: (slice) => `SELECT jobs.id FROM jobs CROSS JOIN holds ON holds.call_id = jobs.call_id
      WHERE ${slice} AND jobs.state <> 'running' AND holds.state = 'open'`,
  },
  {
    rule: "a job was charged otherwise than its hold says",
    offenders: (slice) => `SELECT jobs.id FROM jobs CROSS JOIN holds ON holds.call_id = jobs.call_id
      WHERE ${slice} AND jobs.state <> 'running' AND jobs.charged_nano_usd <> holds.charged_nano_usd`,
  },
]);

const RESOURCES = new RowTable("resources", "tag", [
  {
    rule: "a resource's open hold is not the one that its row has",
    offenders: (slice) => `SELECT tag AS id FROM resources WHERE ${slice}
      AND json_extract(row, '$.rental.heldNanoUsd') IS NOT
        (SELECT sum(amount_nano_usd) FROM holds WHERE open = 1 AND rental = resources.id)`,
  },
  {
    rule: "a resource has more than one open hold",
    offenders: (slice) => `SELECT tag AS id FROM resources WHERE ${slice}
      AND (SELECT count(*) FROM holds WHERE open = 1 AND rental = resources.id) > 1`,
  },
]);

/** Calls that stand in the rows of their leases: of those leases that are open, or whose row goes after `dueMs`. */
export function checkLeasedCalls(sql: Sql, dueMs: number, findings: Findings): void {
  const calls = `(SELECT one.value ->> 0 AS call_id, one.value ->> 4 AS entry_id
    FROM holds CROSS JOIN json_each('[' || lease_calls || ']') AS one
    WHERE lease_calls IS NOT NULL AND (open = 1 OR (open = 0 AND due_ms >= ?))) AS leased`;
  const wrong = sql.exec<{ id: string }>(
    `SELECT leased.call_id AS id FROM ${calls} LEFT JOIN entries ON entries.id = leased.entry_id
     WHERE entry_id > (SELECT coalesce(max(last_id), 0) FROM parts WHERE state = 'folded')
       AND entries.call_id IS NOT leased.call_id LIMIT ${EXAMPLES}`,
    dueMs,
  );
  findings.add("a leased call has not the entry that its lease names", wrong);
  const twice = sql.exec<{ id: string }>(
    `SELECT leased.call_id AS id FROM ${calls} LEFT JOIN holds USING (call_id)
     GROUP BY leased.call_id HAVING count(*) + count(holds.state) > 1 LIMIT ${EXAMPLES}`,
    dueMs,
  );
  findings.add("a leased call stands twice in leases, or in a hold too", twice);
}

/** How the ids of a resource's holds begin, before `-<n>`: found by the key of `holds`. */
const PERIODS = "('cmp-' || (SELECT number FROM account) || '-' || resources.id)";

/** Drives and filesystems: the hold of day 1 alone, and unpaid days that have begun, each once and oldest first. */
const STORAGE = new RowTable("resources", "tag", [
  {
    rule: "a drive or filesystem holds money for more than its first day",
    offenders: (slice) => `SELECT tag AS id FROM resources WHERE ${slice} AND kind IN ('drive', 'filesystem')
      AND json_extract(row, '$.rental.heldNanoUsd') IS NOT NULL AND json_extract(row, '$.rental.phase') <> 'waiting'`,
  },
  {
    rule: "a day of storage is owed that has not begun, or twice",
    offenders: (slice) => `SELECT tag AS id FROM resources WHERE ${slice} AND kind IN ('drive', 'filesystem')
      AND EXISTS (SELECT 1 FROM json_each(row, '$.rental.unpaid') AS day
        WHERE day.value > json_extract(row, '$.rental.n') OR day.value <= coalesce(
          (SELECT past.value FROM json_each(row, '$.rental.unpaid') AS past WHERE past.key = day.key - 1), 1))`,
  },
  {
    rule: "a day of storage was charged after its end, or is owed and paid",
    offenders: (slice) => `SELECT tag AS id FROM resources CROSS JOIN holds ON holds.call_id > ${PERIODS} || '-'
        AND holds.call_id < ${PERIODS} || '.'
      WHERE ${slice} AND kind IN ('drive', 'filesystem') AND holds.state = 'settled'
        AND (CAST(replace(holds.call_id, rtrim(holds.call_id, '0123456789'), '') AS INTEGER)
            > json_extract(row, '$.rental.n')
          OR EXISTS (SELECT 1 FROM json_each(row, '$.rental.unpaid') AS day
            WHERE holds.call_id LIKE '%-' || day.value))`,
  },
]);

export const ROW_TABLES: readonly RowTable[] = [HOLDS, JOBS, RESOURCES, STORAGE];
