/** Keys of one account: made, changed, rotated and revoked, by the operator or by the account's owners and admins. */
import { useState } from "preact/hooks";
import { link } from "./address.ts";
import { api, part } from "./api.ts";
import { Confirm, Copied, Dialog, type Field, Form, Opens, type Typed } from "./dialog.tsx";
import { ago, named, time, usd, usdBrief } from "./format.ts";
import { limitFields, limitsTyped } from "./limits.tsx";
import { useList } from "./list.ts";
import { ListTable } from "./list-table.tsx";
import { Act, Badge } from "./notices.tsx";
import type { Column } from "./table.tsx";
import type { Key, NewKey, Team } from "./types.ts";

interface Props {
  /** `/admin/accounts/{account}` or `/account`. */
  readonly root: string;
  /** Where calls of a key are listed. */
  readonly account?: string;
}

export function Keys({ root, account }: Props) {
  const list = useList<Key>(`${root}/keys`, { limit: 500 });
  const teams = useList<Team>(`${root}/teams`, { limit: 500 });
  const [made, setMade] = useState<NewKey>();
  const shown = (key: NewKey) => {
    setMade(key);
    list.reload();
  };
  const teamFields = teamOptions(teams.rows ?? []);
  return (
    <>
      <ListTable
        list={list}
        name="keys"
        caption="Keys"
        columns={columns(account, (key) => (
          <Actions root={root} of={key} teams={teamFields} onMade={shown} onDone={list.reload} />
        ))}
        idOf={({ id }) => id}
        empty="No key yet. Make one: it is shown once, and works at once."
        actions={
          <Opens label="New key" title="New key">
            {(close) => (
              <Form
                fields={newFields(teamFields)}
                submit="Make the key"
                onSubmit={async (typed) => {
                  const key = await api<NewKey>("POST", `${root}/keys`, keyBody(typed));
                  close();
                  shown(key);
                }}
              />
            )}
          </Opens>
        }
      />
      {made && <Secret made={made} onClose={() => setMade(undefined)} />}
    </>
  );
}

function Secret({ made, onClose }: { made: NewKey; onClose(): void }) {
  return (
    <Dialog title={`The key ${made.name}`} onClose={onClose}>
      <p>Copy it now: it is not shown again, and is stored nowhere.</p>
      <Copied label="Secret key" text={made.key ?? ""} />
    </Dialog>
  );
}

const columns = (
  account: string | undefined,
  actions: (key: Key) => preact.ComponentChildren,
): readonly Column<Key>[] => [
  {
    name: "name",
    label: "Name",
    value: ({ name }) => name,
    cell: (key) => <a href={link("/calls", { account, key: key.id })}>{named(key.name)}</a>,
  },
  {
    name: "last_four",
    label: "Ends with",
    value: ({ last_four }) => last_four,
    cell: ({ last_four }) => <code>…{last_four}</code>,
  },
  { name: "role", label: "Role", value: ({ role }) => role },
  { name: "team", label: "Team", value: ({ team }) => team },
  {
    name: "state",
    label: "State",
    value: stateOf,
    cell: (key) => <Badge kind={stateOf(key) === "live" ? "good" : "idle"}>{stateOf(key)}</Badge>,
  },
  {
    name: "spent_usd",
    label: "Spent",
    number: true,
    value: ({ spent_usd }) => spent_usd,
    cell: ({ spent_usd }) => <span title={usd(spent_usd)}>{usdBrief(spent_usd)}</span>,
  },
  {
    name: "last_used_at",
    label: "Last used",
    value: ({ last_used_at }) => last_used_at,
    cell: ({ last_used_at }) => <span title={time(last_used_at)}>{ago(last_used_at)}</span>,
  },
  { name: "id", label: "", value: ({ id }) => id, cell: actions },
];

function stateOf({ revoked_at, blocked, expires_at }: Key): string {
  if (revoked_at !== null) return "revoked";
  if (expires_at !== null && Date.parse(expires_at) <= Date.now()) return "expired";
  return blocked ? "blocked" : "live";
}

type Teams = readonly (readonly [string, string])[];
const teamOptions = (teams: readonly Team[]): Teams => [
  ["", "none"],
  ...teams.filter(({ deleted_at }) => deleted_at === null).map(({ id, name }) => [id, name] as const),
];

const shared = (teams: Teams, of?: Key): Field[] => [
  { name: "name", label: "Name", required: true, value: of?.name, hint: "For people: who or what uses it" },
  ...(teams.length > 1 ? [{ name: "team", label: "Team", options: teams, value: of?.team ?? "" }] : []),
  {
    name: "models",
    label: "Models",
    value: of?.models?.join(", "),
    hint: "Names between commas, llama-* for a beginning; empty: every model",
  },
  ...limitFields(of),
];
const newFields = (teams: Teams): Field[] => {
  const [name, ...rest] = shared(teams);
  const role: Field = {
    name: "role",
    label: "Role",
    options: [
      ["member", "member: makes calls"],
      ["admin", "admin: manages keys too"],
      ["owner", "owner: and sees the money"],
    ],
  };
  return [...(name ? [name] : []), role, ...rest];
};

function keyBody(typed: Typed): object {
  const models = (typed.models ?? "")
    .split(",")
    .map((model) => model.trim())
    .filter(Boolean);
  return {
    name: typed.name,
    ...(typed.role && { role: typed.role }),
    ...("team" in typed && { team: typed.team || null }),
    models: models.length > 0 ? models : null,
    ...limitsTyped(typed),
  };
}

interface ActionsProps {
  readonly root: string;
  readonly of: Key;
  readonly teams: Teams;
  onMade(key: NewKey): void;
  onDone(): void;
}

function Actions({ root, of: key, teams, onMade, onDone }: ActionsProps) {
  if (key.revoked_at !== null) return null;
  const path = `${root}/keys/${part(key.id)}`;
  return (
    <Opens label="Manage" title={key.name} kind="plain">
      {(close) => (
        <>
          <Form
            fields={shared(teams, key)}
            submit="Save"
            onSubmit={async (typed) => {
              await api("PATCH", path, keyBody(typed));
              close();
              onDone();
            }}
          />
          <hr />
          <div class="buttons">
            <Act
              label={key.blocked ? "Unblock" : "Block"}
              run={() => api("PATCH", path, { blocked: !key.blocked }).then(close).then(onDone)}
            />
            <Rotate
              path={path}
              onMade={(made) => {
                close();
                onMade(made);
              }}
            />
            <Confirm
              label="Revoke"
              title={`Revoke ${key.name}?`}
              text="Its next call is refused, and its sessions here end. This cannot be taken back."
              run={() => api("DELETE", path).then(close).then(onDone)}
            />
          </div>
        </>
      )}
    </Opens>
  );
}

const Rotate = ({ path, onMade }: { path: string; onMade(key: NewKey): void }) => (
  <Opens label="Rotate" title="Rotate the secret" kind="plain">
    {() => (
      <Form
        fields={[{ name: "grace", label: "The old secret works on for, minutes", type: "number", value: "0" }]}
        submit="Make a new secret"
        onSubmit={async ({ grace }) =>
          onMade(await api<NewKey>("POST", `${path}/rotate`, { grace_seconds: Number(grace || 0) * 60 }))
        }
      />
    )}
  </Opens>
);
