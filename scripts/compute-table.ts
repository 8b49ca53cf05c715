/**
 * `npm run tables`: writes the table of compute calls in docs/tenant-api.md from the rows of the table in the code. A
 * test fails while the document says something else.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { COMPUTE_ROWS } from "../src/core/endpoints/compute/compute-table.ts";
import { SERVICE_ROWS } from "../src/core/endpoints/compute/service-rows.ts";

export const DOCUMENT = join(import.meta.dirname, "../docs/tenant-api.md");

/** What a call costs or holds, by the id of its row; the others are free. */
export const COSTS: Readonly<Record<string, string>> = {
  "instances.launch": "holds an hour, or the whole run; a day of each new drive or filesystem",
  "instances.terminate": "ends the charge; the rest of the hold comes back",
  "instances.extend": "holds the hours at once",
  "instances.patch": "free; the charge goes on",
  "clusters.launch": "holds the whole run; a day of each new filesystem",
  "clusters.scale": "free; rate and hold stay",
  "clusters.extend": "holds the hours at once",
  "clusters.end": "ends the charge; the rest of the hold comes back",
  "drives.create": "holds a day; each day is charged at its start",
  "drives.delete": "ends the charge with the running day",
  "filesystems.create": "holds a day; each day is charged at its start",
  "filesystems.delete": "ends the charge with the running day",
};

interface Line {
  readonly call: string;
  readonly status: string;
  readonly who: string;
  readonly cost: string;
  readonly what: string;
}

const WHO = { member: "any role", admin: "owners, admins", owner: "owners" } as const;

/** Calls of the contract that are no rows of the compute table. */
const OTHERS: readonly Line[] = [
  {
    call: "GET /platform/gpu-prices",
    status: "200",
    who: "needs no key",
    cost: "free",
    what: "What GPUs cost the account of a live key; else what they cost everybody",
  },
  { call: "GET /billing/balance", status: "200", who: "any key", cost: "free", what: "The balance less what is held" },
  {
    call: "GET /billing/transactions",
    status: "200",
    who: "owners, with any scope",
    cost: "free",
    what: "What was booked, newest first; entries of compute name the resource",
  },
];

function lines(): readonly Line[] {
  const rows = COMPUTE_ROWS.map(({ id, method, path, status, access, summary }) => ({
    call: `${method} ${path}`,
    status: String(status),
    who: WHO[access.role],
    cost: COSTS[id] ?? "free",
    what: summary,
  }));
  const services = Object.values(SERVICE_ROWS).map(({ method, path, access, summary }) => ({
    call: `${method} ${path}`,
    status: "the service's",
    who: WHO[access.role],
    cost: "free, and not in the 60 calls a minute",
    what: summary,
  }));
  return [...rows, ...services, ...OTHERS];
}

export function computeTable(): string {
  const written = lines().map(
    ({ call, status, who, cost, what }) => `| \`${call}\` | ${status} | ${who} | ${cost} | ${what} |`,
  );
  return ["| call | status | who may | costs | what it does |", "| --- | --- | --- | --- | --- |", ...written].join(
    "\n",
  );
}

const BEGIN = "<!-- compute calls: npm run tables -->\n";
const END = "<!-- end of compute calls -->";

/** The document with its table made anew. */
export function withComputeTable(document: string): string {
  const [before, rest] = document.split(BEGIN);
  const [, after] = rest?.split(END) ?? [];
  if (before === undefined || after === undefined) throw new Error(`docs/tenant-api.md needs ${BEGIN} and ${END}`);
  return `${before}${BEGIN}\n${computeTable()}\n\n${END}${after}`;
}

if (import.meta.main) writeFileSync(DOCUMENT, withComputeTable(readFileSync(DOCUMENT, "utf8")));
