/** Rented machines of the account: what runs, what it costs, and its end. */
import { api, get } from "../kit/api.ts";
import { Confirm } from "../kit/dialog.tsx";
import { time, usd, words } from "../kit/format.ts";
import { Head } from "../kit/frame.tsx";
import { useLoad } from "../kit/load.ts";
import { Badge, Ready } from "../kit/notices.tsx";
import { type Column, Table } from "../kit/table.tsx";

/** What this page reads of an instance. */
interface Instance {
  readonly id: number;
  readonly name: string;
  readonly status: string;
  readonly gpu_type: string;
  readonly gpu_count: number;
  readonly hourly_rate_usd: number | null;
  readonly held_amount: number | null;
  readonly created_at: string;
}
const ENDED = new Set(["terminated", "failed", "terminating", "ended"]);
const stateOf = (status: string) => (status === "running" ? "good" : ENDED.has(status) ? "idle" : "warn");
const amount = (value: number | null | undefined) => (value === null || value === undefined ? "–" : usd(value));

const columns = (reload: () => void): readonly Column<Instance>[] => [
  { name: "id", label: "Id", value: ({ id }) => id, cell: ({ id }) => <code>{id}</code> },
  { name: "name", label: "Name", value: ({ name }) => name },
  {
    name: "status",
    label: "Status",
    value: ({ status }) => status,
    cell: ({ status }) => <Badge kind={stateOf(status)}>{words(status)}</Badge>,
  },
  { name: "gpu", label: "GPUs", value: ({ gpu_type, gpu_count }) => `${gpu_count} x ${gpu_type}` },
  {
    name: "rate",
    label: "An hour",
    number: true,
    value: ({ hourly_rate_usd }) => hourly_rate_usd ?? null,
    cell: ({ hourly_rate_usd }) => amount(hourly_rate_usd),
  },
  {
    name: "held",
    label: "Held",
    number: true,
    value: ({ held_amount }) => held_amount ?? null,
    cell: ({ held_amount }) => amount(held_amount),
  },
  {
    name: "created_at",
    label: "Since",
    value: ({ created_at }) => created_at,
    cell: ({ created_at }) => time(created_at),
  },
  {
    name: "end",
    label: "",
    value: () => null,
    cell: ({ id, name, status }) =>
      ENDED.has(status) ? (
        ""
      ) : (
        <Confirm
          label="Terminate"
          title={`Terminate ${name}?`}
          text={
            status === "running"
              ? "What runs on it is lost. Nothing is charged from now on, and the rest of what is held comes back."
              : "Only a machine that runs can be ended. Wait until its status here is running; until then it costs nothing."
          }
          run={() => api("POST", `/gpu-instances/${id}/terminate`).then(reload)}
        />
      ),
  },
];

export function Compute() {
  const loaded = useLoad(
    (signal) => get<Instance[] | { readonly data?: Instance[] }>("/gpu-instances", {}, signal),
    [],
    10_000,
  );
  return (
    <>
      <Head title="Compute" />
      <Ready of={loaded}>
        {(answer) => (
          <Table
            name="instances"
            caption="GPU instances"
            columns={columns(loaded.reload)}
            rows={Array.isArray(answer) ? answer : (answer.data ?? [])}
            idOf={({ id }) => String(id)}
            empty="Nothing runs. examples/compute.ts launches a machine; the tenants' API has the call."
          />
        )}
      </Ready>
    </>
  );
}
