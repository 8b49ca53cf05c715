/** `tollgate alerts` and `tollgate webhook ...`: what happened, and who is told of it. */
import type { Operations, Schemas } from "../../client/operations.ts";
import { CHANGING, type Command, type Option, type Work } from "../command.ts";
import { confirmed } from "../confirm.ts";
import { fault } from "../failure.ts";
import { when } from "../show/cells.ts";
import { countOf } from "./calls.ts";
import { collected } from "./collected.ts";
import { SECRET_OPTIONS, secretPlace } from "./secret-place.ts";

const LIMIT: Option = { name: "limit", value: "N", about: "at most so many (50)" };
const WEBHOOK = [{ name: "webhook" }] as const;

const alerts: Command = {
  words: "alerts",
  about: "What happened in the last 30 days, newest first",
  options: [
    { name: "account", value: "ID", about: "of this account" },
    { name: "type", value: "NAME", about: "such as balance.low" },
    LIMIT,
  ],
  examples: ["alerts --account acme", "alerts --type margin.negative"],
  async run({ given, gateway, print }) {
    const most = countOf(given, "limit", 50, 100_000);
    const query = { account: given.text("account"), type: given.text("type"), limit: Math.min(most, 1000) };
    await print.rows(
      [
        ["at", (row) => when(row.at)],
        ["type", (row) => row.type],
        ["account", (row) => row.account],
        ["data", (row) => JSON.stringify(row.data)],
      ],
      await collected(gateway().rows("listAlerts", { query }), most),
      { empty: "No alerts of this kind." },
    );
  },
};

const stateOf = (row: Schemas["Webhook"]): string => {
  if (!row.enabled) return `disabled (${row.disabled_why})`;
  return row.failing_since === null ? "works" : `fails since ${row.failing_since}`;
};
const show = ({ print }: Work, row: Schemas["Webhook"]): Promise<void> =>
  print.thing(
    [
      ["id", row.id],
      ["url", row.url],
      ["events", row.events.join(", ")],
      ["state", stateOf(row)],
    ],
    row,
  );

const list: Command = {
  words: "webhook list",
  about: "The operator's webhooks, and whether they work",
  async run({ gateway, print }) {
    await print.rows(
      [
        ["id", (row) => row.id],
        ["url", (row) => row.url],
        ["events", (row) => row.events.join(", ")],
        ["state", stateOf],
      ],
      await collected(gateway().rows("listWebhooks", {})),
      { empty: "None. 'tollgate webhook create' makes one." },
    );
  },
};

const create: Command = {
  words: "webhook create",
  args: [{ name: "url" }, { name: "events" }],
  about: "Tell a URL of these events, separated by commas; the secret that signs goes to a file",
  options: SECRET_OPTIONS,
  examples: ["webhook create https://hooks.example/alerts balance.low,upstream.down --out hook.csv"],
  async run(work) {
    const { arg, gateway } = work;
    const keep = secretPlace(work);
    // Which there are, the gateway says.
    const events = arg("events").split(",") as Operations["createWebhook"]["body"]["events"];
    const made = await gateway().run("createWebhook", { body: { url: arg("url"), events } });
    if (made.secret === null) {
      throw fault(`The secret of ${made.id} got lost on its way. Run: tollgate webhook rotate ${made.id}`);
    }
    await keep({ account: "", name: made.url, keyId: made.id, secret: made.secret });
  },
};

const rotate: Command = {
  words: "webhook rotate",
  args: WEBHOOK,
  about: "Give it a new secret; the old one signs too for 24 hours",
  options: [...SECRET_OPTIONS, ...CHANGING],
  async run(work) {
    const { arg, gateway } = work;
    const keep = secretPlace(work);
    const webhook = arg("webhook");
    if (!(await confirmed(work, `Give ${webhook} a new secret?`))) return;
    const made = await gateway().run("rotateWebhookSecret", { webhook });
    if (made.secret === null) throw fault(`The secret of ${made.id} got lost on its way. Rotate it again.`);
    await keep({ account: "", name: made.url, keyId: made.id, secret: made.secret });
  },
};

const turned = (word: "enable" | "disable", about: string): Command => ({
  words: `webhook ${word}`,
  args: WEBHOOK,
  about,
  options: CHANGING,
  async run(work) {
    const { arg, gateway } = work;
    const found = await gateway().run("getWebhook", { webhook: arg("webhook") });
    if (!(await confirmed(work, `Shall ${word} ${found.url} (${stateOf(found)})?`))) return;
    await show(work, await gateway().run("updateWebhook", { webhook: found.id, body: { enabled: word === "enable" } }));
  },
});

const remove: Command = {
  words: "webhook delete",
  args: WEBHOOK,
  about: "Delete a webhook and what was sent to it",
  options: CHANGING,
  async run(work) {
    const { arg, gateway, print } = work;
    const found = await gateway().run("getWebhook", { webhook: arg("webhook") });
    if (!(await confirmed(work, `Delete ${found.id} (${found.url})?`))) return;
    const gone = await gateway().run("deleteWebhook", { webhook: found.id });
    await print.thing([["deleted", gone.id]], gone);
  },
};

const test: Command = {
  words: "webhook test",
  args: WEBHOOK,
  about: "Send webhook.test now, and say what came of it",
  async run({ arg, gateway, print }) {
    const outcome = await gateway().run("testWebhook", { webhook: arg("webhook") });
    await print.thing(
      [
        ["ok", String(outcome.ok)],
        ["status", outcome.status],
        ["problem", outcome.problem],
        ["latency_ms", outcome.latency_ms],
      ],
      outcome,
    );
    if (!outcome.ok) throw fault(`The receiver did not take it: ${outcome.problem}.`);
  },
};

const deliveries: Command = {
  words: "webhook deliveries",
  args: WEBHOOK,
  about: "What was sent in the last 30 days, newest first",
  options: [{ name: "state", value: "STATE", about: "pending, delivered or failed" }, LIMIT],
  async run({ arg, given, gateway, print }) {
    const most = countOf(given, "limit", 50, 100_000);
    const query = { state: given.text("state") as Schemas["Delivery"]["state"], limit: Math.min(most, 1000) };
    await print.rows(
      [
        ["id", (row) => row.id],
        ["type", (row) => row.type],
        ["state", (row) => row.state],
        ["attempts", (row) => row.attempts],
        ["status", (row) => row.status],
        ["problem", (row) => row.problem],
        ["tried", (row) => when(row.tried_at)],
        ["next", (row) => when(row.next_try_at)],
      ],
      await collected(gateway().rows("listDeliveries", { webhook: arg("webhook"), query }), most),
      { empty: "Nothing was sent." },
    );
  },
};

const resend: Command = {
  words: "webhook resend",
  args: [...WEBHOOK, { name: "delivery" }],
  about: "Send an alert again, under the same id",
  async run({ arg, gateway, print }) {
    const again = await gateway().run("resendDelivery", { webhook: arg("webhook"), delivery: arg("delivery") });
    await print.thing(
      [
        ["id", again.id],
        ["state", again.state],
      ],
      again,
    );
  },
};

export const WEBHOOK_COMMANDS: readonly Command[] = [
  alerts,
  list,
  create,
  test,
  deliveries,
  resend,
  rotate,
  turned("enable", "Enable a webhook that was disabled"),
  turned("disable", "Tell it nothing until it is enabled"),
  remove,
];
