/** The operator's people: named tokens with a role. */
import { useState } from "preact/hooks";
import { link } from "../kit/address.ts";
import { api, part } from "../kit/api.ts";
import { Confirm, Copied, Dialog, Form, Opens } from "../kit/dialog.tsx";
import { ago, day, named } from "../kit/format.ts";
import { Head } from "../kit/frame.tsx";
import { useList } from "../kit/list.ts";
import { ListTable } from "../kit/list-table.tsx";
import { Badge } from "../kit/notices.tsx";
import type { Column } from "../kit/table.tsx";
import type { Schemas } from "../kit/types.ts";

type Operator = Schemas["Operator"];
const ROLES = [
  ["owner", "owner: everything"],
  ["finance", "finance: credits, plans, prices"],
  ["support", "support: reads, blocks, revokes"],
  ["read", "read: reads"],
] as const;

export function Operators() {
  const list = useList<Operator>("/admin/operators", { limit: 500 });
  const [made, setMade] = useState<Schemas["NewOperator"]>();
  const revoke = (one: Operator) => api("DELETE", `/admin/operators/${part(one.id)}`).then(list.reload);
  const columns: readonly Column<Operator>[] = [
    {
      name: "name",
      label: "Name",
      value: ({ name }) => name,
      cell: ({ id, name }) => <a href={link("/changes", { actor: id })}>{named(name)}</a>,
    },
    { name: "role", label: "Role", value: ({ role }) => role },
    {
      name: "last_four",
      label: "Ends with",
      value: ({ last_four }) => last_four,
      cell: ({ last_four }) => <code>…{last_four}</code>,
    },
    {
      name: "state",
      label: "State",
      value: ({ revoked_at }) => (revoked_at ? "revoked" : "live"),
      cell: ({ revoked_at }) => <Badge kind={revoked_at ? "idle" : "good"}>{revoked_at ? "revoked" : "live"}</Badge>,
    },
    {
      name: "last_used_at",
      label: "Last used",
      value: ({ last_used_at }) => last_used_at,
      cell: ({ last_used_at }) => ago(last_used_at),
    },
    {
      name: "created_at",
      label: "Since",
      value: ({ created_at }) => created_at,
      cell: ({ created_at }) => day(created_at),
    },
    {
      name: "id",
      label: "",
      value: ({ id }) => id,
      cell: (one) =>
        one.revoked_at ? (
          ""
        ) : (
          <Confirm
            label="Revoke"
            title={`Revoke ${one.name}?`}
            text="Its next call is refused, and its sessions here end."
            run={() => revoke(one)}
          />
        ),
    },
  ];
  return (
    <>
      <Head title="Operators" />
      <ListTable
        list={list}
        name="operators"
        caption="Operators"
        columns={columns}
        idOf={({ id }) => id}
        empty="Only ADMIN_TOKEN works so far. Give each of your people a token of their own."
        actions={
          <Opens label="New operator" title="New operator">
            {(close) => (
              <Form
                fields={[
                  { name: "name", label: "Name", required: true },
                  { name: "role", label: "Role", options: ROLES, value: "read" },
                ]}
                submit="Make the token"
                onSubmit={async ({ name, role }) => {
                  const one = await api<Schemas["NewOperator"]>("POST", "/admin/operators", { name, role });
                  close();
                  setMade(one);
                  list.reload();
                }}
              />
            )}
          </Opens>
        }
      />
      {made && (
        <Dialog title={`The token of ${made.name}`} onClose={() => setMade(undefined)}>
          <p>Copy it now: it is not shown again, and is stored nowhere.</p>
          <Copied label="Token" text={made.token ?? ""} />
        </Dialog>
      )}
    </>
  );
}
