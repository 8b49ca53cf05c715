/** How calls are shown in lists, to operators and tenants. */
import { link } from "./address.ts";
import { brief, count, ms, time, usd, words } from "./format.ts";
import { Badge } from "./notices.tsx";
import type { Column } from "./table.tsx";
import type { TenantCall } from "./types.ts";

const KINDS = {
  completed: "good",
  client_gone: "idle",
  refused: "warn",
  stream_broken: "bad",
  failed: "bad",
  expired: "bad",
} as const;

export const Outcome = ({ call }: { call: Pick<TenantCall, "outcome" | "status" | "reason"> }) => (
  <span class="outcome">
    <Badge kind={KINDS[call.outcome]}>{words(call.outcome)}</Badge>{" "}
    <span title={call.reason ?? undefined}>{call.status}</span>
  </span>
);

export const usageText = ({ usage }: Pick<TenantCall, "usage">): string =>
  Object.entries(usage)
    .map(([unit, quantity]) => `${count(quantity)} ${words(unit)}`)
    .join(", ");
/** At a glance: a table has many columns. A quantity stays beside its unit. */
const usageBrief = ({ usage }: Pick<TenantCall, "usage">): string =>
  Object.entries(usage)
    .map(([unit, quantity]) => `${brief(quantity)}\u00a0${words(unit).replace(/ tokens$/, "")}`)
    .join(", ");

/** `linked`: one call has a page of its own. */
export const callColumns = <Call extends TenantCall>(linked: boolean): readonly Column<Call>[] => [
  {
    name: "ended_at",
    label: "Time",
    value: (call) => call.ended_at,
    cell: (call) => (linked ? <a href={link(`/calls/${call.id}`)}>{time(call.ended_at)}</a> : time(call.ended_at)),
  },
  { name: "model", label: "Model", value: (call) => call.model },
  { name: "endpoint", label: "Endpoint", value: (call) => call.endpoint },
  {
    name: "outcome",
    label: "Outcome",
    value: (call) => `${call.outcome} ${call.status}`,
    cell: (call) => <Outcome call={call} />,
  },
  {
    name: "usage",
    label: "Usage",
    value: usageText,
    cell: (call) => <span title={usageText(call)}>{usageBrief(call)}</span>,
  },
  {
    name: "charged_usd",
    label: "Charged",
    number: true,
    value: (call) => call.charged_usd,
    cell: (call) => usd(call.charged_usd),
  },
  {
    name: "first_byte_ms",
    label: "First byte",
    number: true,
    value: (call) => call.first_byte_ms,
    cell: (call) => ms(call.first_byte_ms),
  },
  {
    name: "latency_ms",
    label: "Latency",
    number: true,
    value: (call) => call.latency_ms,
    cell: (call) => ms(call.latency_ms),
  },
];
