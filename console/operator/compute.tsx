/** Rented machines and storage: what runs, what it costs an hour, and the operator's stop. */
import { useState } from "preact/hooks";
import { link } from "../kit/address.ts";
import { all, api, get, type Page, part } from "../kit/api.ts";
import { Confirm } from "../kit/dialog.tsx";
import { hours, named, usd, usdBrief, words } from "../kit/format.ts";
import { Head } from "../kit/frame.tsx";
import { useLoad } from "../kit/load.ts";
import { Badge, Fault, Figures, Ready } from "../kit/notices.tsx";
import { type Column, Table } from "../kit/table.tsx";
import type { Account, Schemas } from "../kit/types.ts";

type Seen = Schemas["ComputeSeen"];
type Upstream = Schemas["UpstreamCompute"];

const MARKS = { live: "good", ended: "idle", unknown: "bad", foreign: "warn" } as const;
const price = (value: number | null) => (value === null ? "–" : usd(value));

export function Compute() {
  const loaded = useLoad(
    async (signal) => {
      const [upstreams, accounts] = await Promise.all([
        get<Page<Upstream>>("/admin/compute", {}, signal),
        all<Account>("/admin/accounts", {}, 5_000, signal),
      ]);
      return { upstreams: upstreams.data, accounts };
    },
    [],
    15_000,
  );
  return (
    <>
      <Head title="Compute" />
      <Ready of={loaded}>
        {({ upstreams, accounts }) =>
          upstreams.length === 0 ? (
            <p class="empty">
              No account rents anything. To allow it, set compute_enabled and compute_upstream of an account.
            </p>
          ) : (
            upstreams.map((upstream) => (
              <Of key={upstream.upstream} upstream={upstream} accounts={accounts} reload={loaded.reload} />
            ))
          )
        }
      </Ready>
    </>
  );
}

function Of({ upstream, accounts, reload }: { upstream: Upstream; accounts: readonly Account[]; reload(): void }) {
  const [error, setError] = useState<Error>();
  const [busy, setBusy] = useState(false);
  const reconcile = async () => {
    setBusy(true);
    await api("POST", `/admin/compute/${part(upstream.upstream)}/reconcile`).then(() => setError(undefined), setError);
    setBusy(false);
    reload();
  };
  const running = upstream.seen.filter(({ mark }) => mark === "live");
  const brings = running.reduce((sum, { hourly_price_usd }) => sum + (hourly_price_usd ?? 0), 0);
  return (
    <section>
      <h2>{upstream.upstream}</h2>
      <Figures
        label={`At ${upstream.upstream}`}
        of={[
          {
            label: "Costs an hour",
            value: usdBrief(upstream.burn_usd_per_hour),
            title: usd(upstream.burn_usd_per_hour),
          },
          { label: "Brings an hour", value: usdBrief(brings), title: usd(brings) },
          {
            label: "Balance there",
            value: upstream.balance_usd === null ? "not read yet" : usdBrief(upstream.balance_usd),
          },
          { label: "Lasts", value: hours(upstream.runway_hours) },
          { label: "Running", value: String(running.length) },
        ]}
      />
      <Fault error={error} />
      <Table
        name={`compute-${upstream.upstream}`}
        caption={`What runs at ${upstream.upstream}`}
        columns={columns(accounts, reload)}
        rows={upstream.seen}
        idOf={({ kind, upstream_id }) => `${kind} ${upstream_id}`}
        empty="Nothing is there now."
        actions={
          <button type="button" class="plain" disabled={busy} onClick={reconcile}>
            {busy ? "Reading its lists…" : "Read its lists now"}
          </button>
        }
      />
    </section>
  );
}

function columns(accounts: readonly Account[], reload: () => void): readonly Column<Seen>[] {
  const accountOf = (seen: Seen) => accounts.find(({ number }) => number === seen.account);
  return [
    { name: "kind", label: "What", value: ({ kind }) => kind },
    { name: "name", label: "Name there", value: ({ name }) => name, cell: ({ name }) => <code>{name}</code> },
    {
      name: "account",
      label: "Account",
      value: (seen) => accountOf(seen)?.id ?? null,
      cell: (seen) => {
        const account = accountOf(seen);
        return account ? <a href={link(`/accounts/${account.id}`)}>{named(account.name)}</a> : "–";
      },
    },
    {
      name: "mark",
      label: "Ours",
      value: ({ mark }) => mark,
      cell: ({ mark }) => <Badge kind={MARKS[mark]}>{mark}</Badge>,
    },
    { name: "status", label: "Status", value: ({ status }) => status, cell: ({ status }) => words(status ?? "–") },
    { name: "gpus", label: "GPUs", number: true, value: ({ gpus }) => gpus },
    {
      name: "cost",
      label: "Costs an hour",
      number: true,
      value: ({ hourly_cost_usd }) => hourly_cost_usd,
      cell: ({ hourly_cost_usd }) => price(hourly_cost_usd),
    },
    {
      name: "price",
      label: "Brings an hour",
      number: true,
      value: ({ hourly_price_usd }) => hourly_price_usd,
      cell: ({ hourly_price_usd }) => price(hourly_price_usd),
    },
    {
      name: "stop",
      label: "",
      value: () => null,
      cell: (seen) => {
        const account = accountOf(seen);
        if (!account || seen.id === null || seen.mark !== "live") return "";
        const stop = () =>
          api("POST", `/admin/accounts/${part(account.id)}/compute/stop`, { id: seen.id }).then(reload);
        return (
          <Confirm
            label="Stop"
            title={`Stop ${seen.name}?`}
            text="What runs on it is lost; the rest of what is held comes back to the account."
            run={stop}
          />
        );
      },
    },
  ];
}
