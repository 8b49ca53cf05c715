/** The ledger as its owner sees it, newest first. */
import { useState } from "preact/hooks";
import { get } from "../kit/api.ts";
import { time, usd, words } from "../kit/format.ts";
import { useLoad } from "../kit/load.ts";
import { Fault } from "../kit/notices.tsx";
import { type Column, Table } from "../kit/table.tsx";

interface Transaction {
  readonly id: number;
  readonly kind: string;
  readonly amount: number;
  readonly balance: number;
  readonly created_at: string;
  readonly request_id: string | null;
  readonly model: string | null;
  readonly reference: string | null;
}
const COLUMNS: readonly Column<Transaction>[] = [
  {
    name: "created_at",
    label: "Time",
    value: ({ created_at }) => created_at,
    cell: ({ created_at }) => time(created_at),
  },
  { name: "kind", label: "Kind", value: ({ kind }) => kind, cell: ({ kind }) => words(kind) },
  { name: "model", label: "Model", value: ({ model }) => model },
  { name: "reference", label: "Reference", value: ({ reference, request_id }) => reference ?? request_id },
  { name: "amount", label: "Amount", number: true, value: ({ amount }) => amount, cell: ({ amount }) => usd(amount) },
  {
    name: "balance",
    label: "Balance",
    number: true,
    value: ({ balance }) => balance,
    cell: ({ balance }) => usd(balance),
  },
];
const STEP = 50;

export function Transactions() {
  const [most, setMost] = useState(STEP);
  const { data, error, loading, reload } = useLoad(
    (signal) => get<Transaction[]>("/billing/transactions", { limit: Math.min(most, 1_000) }, signal),
    [most],
  );
  const more = data && data.length === most && most < 1_000 ? () => setMost(most + STEP) : undefined;
  return (
    <>
      <Fault error={error} retry={reload} />
      {(data || !error) && (
        <Table
          name="transactions"
          caption="Transactions"
          columns={COLUMNS}
          rows={data}
          idOf={({ id }) => String(id)}
          busy={loading}
          more={more}
          empty="Nothing was booked yet."
        />
      )}
    </>
  );
}
