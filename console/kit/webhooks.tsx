/** Webhooks of the operator or of an account, and what was sent to each: the same page for both. */
import { useState } from "preact/hooks";
import { api, part } from "./api.ts";
import { Confirm, Copied, Dialog, Form, Opens } from "./dialog.tsx";
import { ago, time } from "./format.ts";
import { useList } from "./list.ts";
import { ListTable } from "./list-table.tsx";
import { Act, Badge } from "./notices.tsx";
import type { Column } from "./table.tsx";
import type { Schemas } from "./types.ts";

type Webhook = Schemas["Webhook"];
type Delivery = Schemas["Delivery"];
export type WebhooksAt = "/admin/webhooks" | "/account/webhooks";

const stateOf = ({ enabled, disabled_why, failing_since }: Webhook): string => {
  if (!enabled) return `disabled: ${disabled_why}`;
  return failing_since === null ? "works" : `fails since ${time(failing_since)}`;
};
const kindOf = ({ enabled, failing_since }: Webhook) => (enabled ? (failing_since === null ? "good" : "warn") : "idle");

/** `events`: what may be subscribed to. */
export function Webhooks({ at, events }: { at: WebhooksAt; events: readonly string[] }) {
  const list = useList<Webhook>(at, { limit: 100 });
  const [made, setMade] = useState<Schemas["WebhookWithSecret"]>();
  const [sent, setSent] = useState<{ of: string; outcome: Schemas["WebhookTest"] }>();
  const path = ({ id }: Webhook) => `${at}/${part(id)}`;
  const test = async (one: Webhook) => {
    setSent({ of: one.url, outcome: await api<Schemas["WebhookTest"]>("POST", `${path(one)}/test`) });
  };
  const rotate = async (one: Webhook) => {
    setMade(await api<Schemas["WebhookWithSecret"]>("POST", `${path(one)}/rotate`));
    list.reload();
  };
  const columns: readonly Column<Webhook>[] = [
    { name: "url", label: "URL", value: ({ url }) => url },
    { name: "events", label: "Events", value: (one) => one.events.join(", ") },
    {
      name: "state",
      label: "State",
      value: stateOf,
      cell: (one) => <Badge kind={kindOf(one)}>{stateOf(one)}</Badge>,
    },
    {
      name: "id",
      label: "",
      value: ({ id }) => id,
      cell: (one) => (
        <div class="buttons">
          <Opens label="Deliveries" title={one.url} kind="plain">
            {() => <Deliveries at={path(one)} />}
          </Opens>
          <Opens label="Test" title={`Send webhook.test to ${one.url}?`} kind="plain">
            {(close) => <Form fields={[]} submit="Send it" onSubmit={() => test(one).then(close)} />}
          </Opens>
          <Opens label="Rotate" title="A new secret? The old one signs too for 24 hours." kind="plain">
            {(close) => <Form fields={[]} submit="Rotate" onSubmit={() => rotate(one).then(close)} />}
          </Opens>
          <Opens label={one.enabled ? "Disable" : "Enable"} title={one.url} kind="plain">
            {(close) => (
              <Form
                fields={[]}
                submit={one.enabled ? "Disable" : "Enable"}
                onSubmit={() => api("PATCH", path(one), { enabled: !one.enabled }).then(close).then(list.reload)}
              />
            )}
          </Opens>
          <Confirm
            label="Delete"
            title={`Delete the webhook to ${one.url}?`}
            text="What was sent to it goes too."
            run={() => api("DELETE", path(one)).then(list.reload)}
          />
        </div>
      ),
    },
  ];
  return (
    <>
      <ListTable
        list={list}
        name="webhooks"
        caption="Webhooks"
        columns={columns}
        idOf={({ id }) => id}
        empty="Nobody is told yet. A webhook sends each event that you choose to a URL of yours."
        actions={
          <Opens label="New webhook" title="New webhook">
            {(close) => (
              <Form
                fields={[
                  { name: "url", label: "URL", required: true, hint: "https, on a public host by its name" },
                  ...events.map((event) => ({ name: event, label: event, type: "checkbox" as const })),
                ]}
                submit="Make the webhook"
                onSubmit={async ({ url, ...ticked }) => {
                  const chosen = events.filter((event) => ticked[event] === "yes");
                  const one = await api<Schemas["WebhookWithSecret"]>("POST", at, { url, events: chosen });
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
        <Dialog title="The secret that signs its messages" onClose={() => setMade(undefined)}>
          <p>Copy it now: it is not shown again.</p>
          <Copied label="Secret" text={made.secret ?? ""} />
        </Dialog>
      )}
      {sent && (
        <Dialog title={sent.outcome.ok ? "It was taken" : "It was not taken"} onClose={() => setSent(undefined)}>
          <p>
            {sent.of}: {sent.outcome.problem ?? "ok"}, status {sent.outcome.status ?? "none"}, after{" "}
            {sent.outcome.latency_ms} ms.
          </p>
        </Dialog>
      )}
    </>
  );
}

function Deliveries({ at }: { at: string }) {
  const list = useList<Delivery>(`${at}/deliveries`, { limit: 50 });
  const resend = (one: Delivery) => api("POST", `${at}/deliveries/${part(one.id)}/resend`).then(list.reload);
  const columns: readonly Column<Delivery>[] = [
    { name: "created_at", label: "Time", value: ({ created_at }) => created_at, cell: (one) => time(one.created_at) },
    { name: "type", label: "Event", value: ({ type }) => type },
    {
      name: "state",
      label: "State",
      value: ({ state }) => state,
      cell: ({ state }) => (
        <Badge kind={state === "delivered" ? "good" : state === "failed" ? "bad" : "idle"}>{state}</Badge>
      ),
    },
    { name: "attempts", label: "Tries", value: ({ attempts }) => attempts, number: true },
    {
      name: "problem",
      label: "Answer",
      value: ({ status, problem }) => [status, problem].filter((one) => one !== null).join(" "),
    },
    {
      name: "next_try_at",
      label: "Last, next",
      value: ({ tried_at }) => tried_at,
      cell: (one) => `${ago(one.tried_at)}${one.next_try_at === null ? "" : `, next ${time(one.next_try_at)}`}`,
    },
    {
      name: "id",
      label: "",
      value: ({ id }) => id,
      cell: (one) => (one.state === "pending" ? "" : <Act label="Send again" run={() => resend(one)} />),
    },
  ];
  return (
    <ListTable
      list={list}
      name="deliveries"
      caption="Deliveries"
      columns={columns}
      idOf={({ id }) => id}
      empty="Nothing was sent in 30 days."
    />
  );
}
