/** Single calls, newest first, as they end. */
import { link } from "../kit/address.ts";
import { callColumns } from "../kit/call-columns.tsx";
import { CallsPage } from "../kit/calls-page.tsx";
import { OUTCOMES } from "../kit/filters.tsx";
import type { Column } from "../kit/table.tsx";
import type { Call } from "../kit/types.ts";

const FILTERS = [
  { name: "account", label: "Account" },
  { name: "key", label: "Key id" },
  { name: "model", label: "Model" },
  { name: "upstream", label: "Upstream" },
  { name: "outcome", label: "Outcome", options: OUTCOMES },
  { name: "status", label: "Status" },
  { name: "reason", label: "Reason" },
];
const [when, ...rest] = callColumns<Call>(true);
const COLUMNS: readonly Column<Call>[] = [
  ...(when ? [when] : []),
  {
    name: "account",
    label: "Account",
    value: (call) => call.account,
    cell: (call) => <a href={link(`/accounts/${call.account}`)}>{call.account}</a>,
  },
  { name: "upstream", label: "Upstream", value: (call) => call.upstream },
  ...rest,
];

export const Calls = () => <CallsPage<Call> path="/admin/calls" filters={FILTERS} columns={COLUMNS} />;
