/** Teams of one account, with their limits. */
import { api, part } from "./api.ts";
import { Confirm, type Field, Form, Opens } from "./dialog.tsx";
import { ago, usd, usdBrief } from "./format.ts";
import { limitFields, limitsTyped } from "./limits.tsx";
import { useList } from "./list.ts";
import { ListTable } from "./list-table.tsx";
import { Act, Badge } from "./notices.tsx";
import type { Column } from "./table.tsx";
import type { Team } from "./types.ts";

const fields = (of?: Team): Field[] => [
  { name: "name", label: "Name", required: true, value: of?.name },
  ...limitFields(of),
];

export function Teams({ root }: { root: string }) {
  const list = useList<Team>(`${root}/teams`, { limit: 500 });
  return (
    <ListTable
      list={list}
      name="teams"
      caption="Teams"
      columns={columns((team) => <Actions root={root} of={team} onDone={list.reload} />)}
      idOf={({ id }) => id}
      empty="No team yet. A team gives several keys a common budget and common limits."
      actions={
        <Opens label="New team" title="New team">
          {(close) => (
            <Form
              fields={fields()}
              submit="Make the team"
              onSubmit={async (typed) => {
                await api("POST", `${root}/teams`, { name: typed.name, ...limitsTyped(typed) });
                close();
                list.reload();
              }}
            />
          )}
        </Opens>
      }
    />
  );
}

const columns = (actions: (team: Team) => preact.ComponentChildren): readonly Column<Team>[] => [
  { name: "name", label: "Name", value: ({ name }) => name },
  {
    name: "state",
    label: "State",
    value: stateOf,
    cell: (team) => <Badge kind={stateOf(team) === "live" ? "good" : "idle"}>{stateOf(team)}</Badge>,
  },
  {
    name: "spent_usd",
    label: "Spent",
    number: true,
    value: ({ spent_usd }) => spent_usd,
    cell: ({ spent_usd }) => <span title={usd(spent_usd)}>{usdBrief(spent_usd)}</span>,
  },
  {
    name: "max_budget",
    label: "Budget",
    number: true,
    value: ({ max_budget }) => max_budget,
    cell: ({ max_budget, budget_duration }) =>
      max_budget === null ? "–" : `${usdBrief(max_budget)} / ${budget_duration}`,
  },
  {
    name: "last_used_at",
    label: "Last used",
    value: ({ last_used_at }) => last_used_at,
    cell: ({ last_used_at }) => ago(last_used_at),
  },
  { name: "id", label: "", value: ({ id }) => id, cell: actions },
];
const stateOf = ({ deleted_at, blocked }: Team): string =>
  deleted_at !== null ? "deleted" : blocked ? "blocked" : "live";

function Actions({ root, of: team, onDone }: { root: string; of: Team; onDone(): void }) {
  if (team.deleted_at !== null) return null;
  const path = `${root}/teams/${part(team.id)}`;
  return (
    <Opens label="Manage" title={team.name} kind="plain">
      {(close) => (
        <>
          <Form
            fields={fields(team)}
            submit="Save"
            onSubmit={async (typed) => {
              await api("PATCH", path, { name: typed.name, ...limitsTyped(typed) });
              close();
              onDone();
            }}
          />
          <hr />
          <div class="buttons">
            <Act
              label={team.blocked ? "Unblock" : "Block"}
              run={() => api("PATCH", path, { blocked: !team.blocked }).then(close).then(onDone)}
            />
            <Confirm
              label="Delete"
              title={`Delete ${team.name}?`}
              text="Its keys end with it. This cannot be taken back."
              run={() => api("DELETE", path).then(close).then(onDone)}
            />
          </div>
        </>
      )}
    </Opens>
  );
}
