/** Upstreams, and how each of them does. */
import { link } from "../kit/address.ts";
import { all, get, part } from "../kit/api.ts";
import { ms, percent } from "../kit/format.ts";
import { Head } from "../kit/frame.tsx";
import { useLoad } from "../kit/load.ts";
import { Badge, Ready } from "../kit/notices.tsx";
import { type Column, Table } from "../kit/table.tsx";
import type { Schemas, Upstream } from "../kit/types.ts";

export type Health = Schemas["UpstreamHealth"];
interface Row {
  readonly upstream: Upstream;
  readonly health: Health | undefined;
}
export const KINDS = { up: "good", idle: "idle", failing: "warn", down: "bad" } as const;
const MOST_ASKED = 40;

const tries = ({ health }: Row) => health?.targets.reduce((sum, target) => sum + target.tries, 0) ?? 0;
const answered = ({ health }: Row) =>
  health?.targets.reduce((sum, { results }) => sum + (results.answered ?? 0), 0) ?? 0;
const slowest = ({ health }: Row): number | null => {
  const found = health?.targets.flatMap(({ first_byte_ms }) => first_byte_ms.p95 ?? []) ?? [];
  return found.length > 0 ? Math.max(...found) : null;
};
const COLUMNS: readonly Column<Row>[] = [
  {
    name: "id",
    label: "Upstream",
    value: ({ upstream }) => upstream.id,
    cell: ({ upstream }) => <a href={link(`/upstreams/${upstream.id}`)}>{upstream.id}</a>,
  },
  {
    name: "state",
    label: "State",
    value: ({ health }) => health?.state ?? null,
    cell: ({ health }) => (health ? <Badge kind={KINDS[health.state]}>{health.state}</Badge> : "–"),
  },
  { name: "region", label: "Region", value: ({ upstream }) => upstream.region },
  { name: "base_url", label: "Address", value: ({ upstream }) => upstream.base_url },
  { name: "tries", label: "Tries, 1 h", number: true, value: tries },
  {
    name: "answered",
    label: "Answered",
    number: true,
    value: (row) => (tries(row) > 0 ? answered(row) / tries(row) : null),
    cell: (row) => (tries(row) > 0 ? percent(answered(row) / tries(row)) : "–"),
  },
  { name: "first_byte", label: "First byte, p95", number: true, value: slowest, cell: (row) => ms(slowest(row)) },
];

export function Upstreams() {
  const loaded = useLoad(
    async (signal) => {
      const upstreams = await all<Upstream>("/admin/upstreams", {}, 500, signal);
      return Promise.all(
        upstreams.map(
          async (upstream, index): Promise<Row> => ({
            upstream,
            health:
              index < MOST_ASKED
                ? await get<Health>(`/admin/upstreams/${part(upstream.id)}/health`, { minutes: 60 }, signal)
                : undefined,
          }),
        ),
      );
    },
    [],
    30_000,
  );
  return (
    <>
      <Head title="Upstreams" />
      <Ready of={loaded}>
        {(rows) => (
          <Table
            name="upstreams"
            caption="Upstreams"
            columns={COLUMNS}
            rows={rows}
            idOf={({ upstream }) => upstream.id}
            empty="No upstream yet. Put the first one: PUT /admin/upstreams/{upstream}?check=true."
          />
        )}
      </Ready>
    </>
  );
}
