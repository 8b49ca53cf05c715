/** The log of changes: who changed what, newest first. */

import { useAddress } from "../kit/address.ts";
import { Opens } from "../kit/dialog.tsx";
import { Filters } from "../kit/filters.tsx";
import { named, time } from "../kit/format.ts";
import { Head } from "../kit/frame.tsx";
import { useList } from "../kit/list.ts";
import { ListTable } from "../kit/list-table.tsx";
import { Badge } from "../kit/notices.tsx";
import type { Column } from "../kit/table.tsx";
import type { Schemas } from "../kit/types.ts";

type Change = Schemas["ChangeEvent"];
const COLUMNS: readonly Column<Change>[] = [
  { name: "at", label: "Time", value: ({ at }) => at, cell: ({ at }) => time(at) },
  { name: "actor", label: "Who", value: ({ actor }) => `${actor.name} (${actor.kind})` },
  { name: "action", label: "What", value: ({ action }) => action },
  { name: "target", label: "Of what", value: ({ target }) => target, cell: ({ target }) => <code>{target}</code> },
  {
    name: "outcome",
    label: "Outcome",
    value: ({ outcome }) => outcome,
    cell: ({ outcome }) => <Badge kind={outcome === "done" ? "good" : "warn"}>{outcome}</Badge>,
  },
  { name: "fields", label: "Fields", value: ({ fields }) => fields.join(", ") },
  {
    name: "difference",
    label: "",
    value: ({ before, after }) => JSON.stringify({ before, after }),
    cell: ({ action, before, after }) => (
      <Opens label="Difference" title={action} kind="plain">
        {() => (
          <div class="columns">
            <Side title="Before" state={before} />
            <Side title="After" state={after} />
          </div>
        )}
      </Opens>
    ),
  },
];

const Side = ({ title, state }: { title: string; state: Change["before"] }) => (
  <section>
    <h3>{title}</h3>
    <pre tabIndex={0}>
      {state === null ? "nothing" : JSON.stringify(state, null, 2).split("\n").map(named).join("\n")}
    </pre>
  </section>
);

export function Changes() {
  const { query } = useAddress();
  const { account, actor, action, from, to } = query;
  const list = useList<Change>("/admin/events", { account, actor, action, from, to, limit: 100 });
  return (
    <>
      <Head title="Changes" />
      <Filters
        of={[
          { name: "account", label: "Account" },
          { name: "actor", label: "Operator or key id" },
          { name: "action", label: "Action" },
        ]}
      />
      <ListTable
        list={list}
        name="changes"
        caption="Changes"
        columns={COLUMNS}
        idOf={({ id }) => String(id)}
        empty="Nobody changed anything of this kind."
      />
    </>
  );
}
