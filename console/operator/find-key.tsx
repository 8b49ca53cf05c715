/** Finds a key by its last four characters, its id or its name, in every account. */
import { useState } from "preact/hooks";
import { link, useAddress } from "../kit/address.ts";
import { all, api, part } from "../kit/api.ts";
import { ago, day, usd } from "../kit/format.ts";
import { Head } from "../kit/frame.tsx";
import { useLoad } from "../kit/load.ts";
import { Badge, Fault } from "../kit/notices.tsx";
import { type Column, Table } from "../kit/table.tsx";
import type { Account, Key } from "../kit/types.ts";

interface Found extends Key {
  readonly account: string;
}
interface Looked {
  readonly account: string;
  readonly key: Key;
}
const AT_ONCE = 6;

/**
 * By the end of a secret the gateway knows whose it is; for a name the keys of all accounts are read, some at a time.
 */
async function search(text: string, told: (done: number, of: number) => void, signal: AbortSignal): Promise<Found[]> {
  if (!text) return [];
  if (/^[0-9A-Za-z]{4}$/.test(text)) {
    const looked = await api<{ data: readonly Looked[] }>("POST", "/admin/keys/lookup", { last_four: text }, signal);
    if (looked.data.length > 0) return looked.data.map(({ account, key }) => ({ ...key, account }));
  }
  const accounts = await all<Account>("/admin/accounts", {}, 10_000, signal);
  const found: Found[] = [];
  for (let first = 0; first < accounts.length && !signal.aborted; first += AT_ONCE) {
    told(first, accounts.length);
    const keys = await Promise.all(
      accounts.slice(first, first + AT_ONCE).map(async ({ id }) =>
        (await all<Key>(`/admin/accounts/${part(id)}/keys`, {}, 10_000, signal)).map((key) => ({
          ...key,
          account: id,
        })),
      ),
    );
    found.push(...keys.flat().filter((key) => matches(key, text)));
  }
  return found;
}

const matches = ({ id, name }: Key, text: string): boolean =>
  id === text || name.toLowerCase().includes(text.toLowerCase());

const COLUMNS: readonly Column<Found>[] = [
  {
    name: "account",
    label: "Account",
    value: ({ account }) => account,
    cell: ({ account }) => <a href={link(`/accounts/${account}/keys`)}>{account}</a>,
  },
  { name: "name", label: "Key", value: ({ name }) => name },
  { name: "id", label: "Id", value: ({ id }) => id, cell: ({ id }) => <code>{id}</code> },
  {
    name: "last_four",
    label: "Ends with",
    value: ({ last_four }) => last_four,
    cell: ({ last_four }) => <code>…{last_four}</code>,
  },
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
    cell: ({ spent_usd }) => usd(spent_usd),
  },
  {
    name: "last_used_at",
    label: "Last used",
    value: ({ last_used_at }) => last_used_at,
    cell: ({ last_used_at }) => ago(last_used_at),
  },
  {
    name: "created_at",
    label: "Made",
    value: ({ created_at }) => created_at,
    cell: ({ created_at }) => day(created_at),
  },
  {
    name: "calls",
    label: "",
    value: () => null,
    cell: ({ account, id }) => <a href={link("/calls", { account, key: id })}>what it did</a>,
  },
];
function stateOf({ revoked_at, blocked }: Key): string {
  return revoked_at !== null ? "revoked" : blocked ? "blocked" : "live";
}

export function FindKey() {
  const { query, set } = useAddress();
  const { find = "" } = query;
  const [typed, setTyped] = useState(find);
  const [progress, setProgress] = useState<{ done: number; of: number }>();
  const loaded = useLoad((signal) => search(find, (done, of) => setProgress({ done, of }), signal), [find]);
  // A whole secret must not stand in the address.
  const wanted = typed.trim().startsWith("sk-tg-") ? typed.trim().slice(-4) : typed.trim();
  return (
    <>
      <Head title="Keys" />
      <form
        class="filters"
        onSubmit={(event) => {
          event.preventDefault();
          set({ find: wanted }, true);
        }}
      >
        <input
          aria-label="Last four characters, id or name"
          placeholder="Last four characters, id or name"
          value={typed}
          onInput={(event) => setTyped(event.currentTarget.value)}
        />
        <button type="submit">Find</button>
      </form>
      <Fault error={loaded.error} retry={loaded.reload} />
      {find && loaded.loading && (
        <p role="status" aria-busy="true">
          Looking into the keys of {progress ? `${progress.of} accounts ` : "all accounts "}
          <progress aria-label="Accounts read" max={progress?.of} value={progress?.done} />
        </p>
      )}
      {find && !loaded.loading && loaded.data ? (
        <Table
          name="found"
          caption="Keys found"
          columns={COLUMNS}
          rows={loaded.data}
          idOf={({ account, id }) => `${account} ${id}`}
          empty="No key has that. Revoked keys are found too, so it is not one of this gateway."
        />
      ) : (
        !find && (
          <p class="quiet">
            Whose key is it, is it still live, and what did it do? A leaked secret may be pasted as it is: only its last
            four characters are used. New keys are made in their account.
          </p>
        )
      )}
    </>
  );
}
