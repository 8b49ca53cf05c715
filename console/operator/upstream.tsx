/** One upstream: its targets, its last errors, a check, and draining what stands behind aliases. */
import { useState } from "preact/hooks";
import { link } from "../kit/address.ts";
import { all, api, get, part } from "../kit/api.ts";
import { count, ms, time, words } from "../kit/format.ts";
import { Head } from "../kit/frame.tsx";
import { useLoad } from "../kit/load.ts";
import { Badge, Facts, Fault, Ready } from "../kit/notices.tsx";
import { type Column, Table } from "../kit/table.tsx";
import type { Alias, Schemas, Upstream } from "../kit/types.ts";
import { type Health, KINDS } from "./upstreams.tsx";

type Target = Health["targets"][number];
const TARGETS: readonly Column<Target>[] = [
  { name: "model", label: "Model", value: ({ model }) => model },
  {
    name: "state",
    label: "State",
    value: ({ state }) => state,
    cell: ({ state }) => <Badge kind={KINDS[state]}>{state}</Badge>,
  },
  { name: "tries", label: "Tries", number: true, value: ({ tries }) => tries },
  {
    name: "results",
    label: "Results",
    value: ({ results }) =>
      Object.entries(results)
        .map(([result, times]) => `${count(times)} ${words(result)}`)
        .join(", "),
  },
  {
    name: "p50",
    label: "First byte p50",
    number: true,
    value: ({ first_byte_ms }) => first_byte_ms.p50,
    cell: ({ first_byte_ms }) => ms(first_byte_ms.p50),
  },
  {
    name: "p95",
    label: "p95",
    number: true,
    value: ({ first_byte_ms }) => first_byte_ms.p95,
    cell: ({ first_byte_ms }) => ms(first_byte_ms.p95),
  },
  {
    name: "p99",
    label: "p99",
    number: true,
    value: ({ first_byte_ms }) => first_byte_ms.p99,
    cell: ({ first_byte_ms }) => ms(first_byte_ms.p99),
  },
  {
    name: "failed",
    label: "Last failed",
    value: ({ last_failed_at }) => last_failed_at,
    cell: ({ last_failed_at }) => time(last_failed_at),
  },
];
const ERRORS: readonly Column<Health["errors"][number]>[] = [
  {
    name: "at",
    label: "Time",
    value: ({ at }) => at,
    cell: ({ at, call }) => <a href={link(`/calls/${call}`)}>{time(at)}</a>,
  },
  { name: "model", label: "Model", value: ({ model }) => model },
  { name: "result", label: "Result", value: ({ result }) => result, cell: ({ result }) => words(result) },
  { name: "ms", label: "After", number: true, value: ({ ms: took }) => took, cell: ({ ms: took }) => ms(took) },
];

export const UpstreamPage = ({ upstream = "" }: { upstream?: string }) => <Page key={upstream} id={upstream} />;

function Page({ id }: { id: string }) {
  const path = `/admin/upstreams/${part(id)}`;
  const stored = useLoad((signal) => get<Upstream>(path, {}, signal), [path]);
  const health = useLoad(
    (signal) => get<Health>(`${path}/health`, { minutes: 60, in_flight: "true" }, signal),
    [path],
    10_000,
  );
  return (
    <>
      <Head title={id}>
        {health.data && <Badge kind={KINDS[health.data.state]}>{health.data.state}</Badge>}
        <a class="button plain" href={link("/calls", { upstream: id })}>
          Calls
        </a>
      </Head>
      <Check path={path} />
      <Ready of={stored}>
        {(upstream) => <Settings upstream={upstream} flying={health.data?.in_flight ?? null} />}
      </Ready>
      <Ready of={health}>
        {({ targets, errors }) => (
          <>
            <h2>Targets, by the tries of the last hour</h2>
            <Table
              name="targets"
              caption={`Targets at ${id}`}
              columns={TARGETS}
              rows={targets}
              idOf={({ model }) => model}
              empty="Nobody called it in the last hour. Check it, to see whether it answers."
            />
            <h2>Behind aliases</h2>
            <Drains upstream={id} />
            <h2>Last errors</h2>
            <Table
              name="errors"
              caption={`Errors of ${id}`}
              columns={ERRORS}
              rows={errors}
              idOf={({ at, call }) => `${at} ${call}`}
              empty="No try failed in the last hour."
            />
          </>
        )}
      </Ready>
    </>
  );
}

const Settings = ({ upstream, flying }: { upstream: Upstream; flying: Health["in_flight"] }) => (
  <Facts
    of={[
      ["Address", upstream.base_url],
      ["Region", upstream.region ?? "–"],
      [
        "In flight",
        flying
          ? `${count(flying.calls)} calls, ${count(flying.young_calls)} young ones perhaps, ${count(flying.jobs)} jobs`
          : "…",
      ],
      ["Service paths", upstream.service_checked_at ? `on since ${time(upstream.service_checked_at)}` : "off"],
      ["First byte within", ms(upstream.timeouts.first_byte_ms)],
      ["Answer within", ms(upstream.timeouts.answer_ms)],
    ]}
  />
);

function Check({ path }: { path: string }) {
  const [state, setState] = useState<{ busy: boolean; found?: Schemas["UpstreamCheck"]; error?: Error }>({
    busy: false,
  });
  const check = async () => {
    setState({ busy: true });
    await api<Schemas["UpstreamCheck"]>("POST", `${path}/check`, {}).then(
      (found) => setState({ busy: false, found }),
      (error: Error) => setState({ busy: false, error }),
    );
  };
  const { busy, found, error } = state;
  return (
    <>
      <div class="buttons" role="status">
        <button type="button" class="plain" disabled={busy} onClick={check}>
          {busy ? "Asking it…" : "Check it now"}
        </button>
        {found && (
          <Badge kind={found.ok ? "good" : "bad"}>
            {found.ok ? `answers after ${ms(found.latency_ms)}` : (found.problem ?? `status ${found.status}`)}
          </Badge>
        )}
      </div>
      <Fault error={error} />
    </>
  );
}

interface Behind {
  readonly alias: Alias;
  readonly index: number;
}
function Drains({ upstream }: { upstream: string }) {
  const loaded = useLoad((signal) => all<Alias>("/admin/aliases", {}, 2_000, signal), [upstream]);
  const [error, setError] = useState<Error>();
  const drain = async ({ alias, index }: Behind, drained: boolean) => {
    const targets = alias.targets.map((target, at) => (at === index ? { ...target, drain: drained } : target));
    const whose = alias.account === null ? "" : `?account=${part(alias.account)}`;
    // Prices stay as they are: an alias that sells at a loss already is drained as any other.
    await api("PATCH", `/admin/aliases/${part(alias.alias)}${whose}`, { targets, allow_loss: true }).then(
      () => setError(undefined),
      setError,
    );
    loaded.reload();
  };
  const columns: readonly Column<Behind>[] = [
    { name: "alias", label: "Alias", value: ({ alias }) => alias.alias },
    {
      name: "account",
      label: "For",
      value: ({ alias }) => alias.account,
      cell: ({ alias }) => alias.account ?? "everybody",
    },
    { name: "model", label: "Model", value: ({ alias, index }) => alias.targets[index]?.model ?? "" },
    {
      name: "state",
      label: "State",
      value: ({ alias, index }) => (alias.targets[index]?.drain ? "drained" : "takes calls"),
    },
    {
      name: "drain",
      label: "",
      value: () => null,
      cell: (one) => {
        const drained = one.alias.targets[one.index]?.drain ?? false;
        return (
          <button type="button" class="plain" onClick={() => drain(one, !drained)}>
            {drained ? "Take calls again" : "Drain"}
          </button>
        );
      },
    },
  ];
  return (
    <>
      <Fault error={error} />
      <Ready of={loaded}>
        {(aliases) => {
          const behind = aliases.flatMap((alias) =>
            alias.targets.flatMap((target, index) => (target.upstream === upstream ? { alias, index } : [])),
          );
          return (
            <Table
              name="drains"
              caption="Targets behind aliases"
              columns={columns}
              rows={behind}
              idOf={({ alias, index }) => `${alias.account} ${alias.alias} ${index}`}
              empty="No alias leads here."
            />
          );
        }}
      </Ready>
    </>
  );
}
