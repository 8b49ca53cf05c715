/** Single calls, newest first. */
import { callColumns } from "../kit/call-columns.tsx";
import { CallsPage } from "../kit/calls-page.tsx";
import { OUTCOMES } from "../kit/filters.tsx";
import type { Column } from "../kit/table.tsx";
import type { TenantCall } from "../kit/types.ts";

const FILTERS = [
  { name: "model", label: "Model" },
  { name: "key", label: "Key id" },
  { name: "outcome", label: "Outcome", options: OUTCOMES },
  { name: "status", label: "Status" },
];
const COLUMNS: readonly Column<TenantCall>[] = [
  ...callColumns<TenantCall>(false),
  { name: "id", label: "Request id", value: ({ id }) => id, cell: ({ id }) => <code>{id}</code> },
];

export const Calls = () => <CallsPage<TenantCall> path="/account/calls" filters={FILTERS} columns={COLUMNS} />;
