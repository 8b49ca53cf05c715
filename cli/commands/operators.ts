/** `tollgate operator ...` and `tollgate events`: who may do what, and who did what. */
import type { Schemas } from "../../client/operator.ts";
import { CHANGING, type Command } from "../command.ts";
import { confirmed } from "../confirm.ts";
import { fault, usage } from "../failure.ts";
import { when } from "../show/cells.ts";
import { countOf, since } from "./calls.ts";
import { collected } from "./collected.ts";
import { SECRET_OPTIONS, secretPlace } from "./secret-place.ts";

const ROLES = ["owner", "finance", "support", "read"] as const;
function roleOf(text: string): Schemas["Operator"]["role"] {
  const role = ROLES.find((name) => name === text);
  if (role) return role;
  throw usage(`The role must be one of ${ROLES.join(", ")}.`);
}

const list: Command = {
  words: "operator list",
  about: "The operator's people with their roles",
  async run({ gateway, print }) {
    const rows = await collected(gateway().rows("listOperators", {}));
    await print.rows(
      [
        ["id", (row) => row.id],
        ["name", (row) => row.name],
        ["role", (row) => row.role],
        ["ends_with", (row) => `...${row.last_four}`],
        ["last_used", (row) => when(row.last_used_at)],
        ["revoked", (row) => when(row.revoked_at)],
      ],
      rows,
      { empty: "None but ADMIN_TOKEN. 'tollgate operator create' makes one." },
    );
  },
};

const create: Command = {
  words: "operator create",
  args: [{ name: "name" }, { name: "role" }],
  about: "Make an operator with a token of its own; the token goes to a file",
  options: SECRET_OPTIONS,
  examples: ["operator create Ada finance --out ada.csv"],
  async run(work) {
    const { arg, gateway } = work;
    const keep = secretPlace(work);
    const made = await gateway().run("createOperator", { body: { name: arg("name"), role: roleOf(arg("role")) } });
    if (made.token === null) {
      throw fault(
        `The token of ${made.id} got lost on its way. Run: tollgate operator revoke ${made.id}, and make another.`,
      );
    }
    await keep({ account: "", name: made.name, keyId: made.id, secret: made.token });
  },
};

const role: Command = {
  words: "operator role",
  args: [{ name: "operator" }, { name: "role" }],
  about: "Give an operator another role",
  options: CHANGING,
  async run(work) {
    const { arg, gateway, print } = work;
    const wanted = roleOf(arg("role"));
    const found = await gateway().run("getOperator", { operator: arg("operator") });
    if (!(await confirmed(work, `Make ${found.name} (${found.role}) ${wanted}?`))) return;
    const changed = await gateway().run("updateOperator", { operator: found.id, body: { role: wanted } });
    await print.thing(
      [
        ["id", changed.id],
        ["role", changed.role],
      ],
      changed,
    );
  },
};

const revoke: Command = {
  words: "operator revoke",
  args: [{ name: "operator" }],
  about: "Revoke an operator's token for good",
  options: CHANGING,
  async run(work) {
    const { arg, gateway, print } = work;
    const found = await gateway().run("getOperator", { operator: arg("operator") });
    if (!(await confirmed(work, `Revoke the token of ${found.name} (${found.role}, ...${found.last_four})?`))) return;
    const gone = await gateway().run("revokeOperator", { operator: found.id });
    await print.thing([["revoked", gone.id]], gone);
  },
};

const events: Command = {
  words: "events",
  about: "Who changed what, newest first",
  options: [
    { name: "account", value: "ID", about: "of this account" },
    { name: "actor", value: "ID", about: "by this operator or key" },
    { name: "action", value: "NAME", about: "such as updateKey" },
    { name: "since", value: "TIME", about: "24h, 7d or 2026-11-22" },
    { name: "limit", value: "N", about: "at most so many (50)" },
  ],
  examples: ["events --account acme --since 7d"],
  async run({ given, gateway, print, io }) {
    const most = countOf(given, "limit", 50, 100_000);
    const query = {
      account: given.text("account"),
      actor: given.text("actor"),
      action: given.text("action"),
      from: momentOf(given.text("since"), io.now()),
      limit: Math.min(most, 1000),
    };
    const rows = await collected(gateway().rows("listEvents", { query }), most);
    await print.rows(
      [
        ["at", (row) => when(row.at)],
        ["by", (row) => row.actor.name],
        ["account", (row) => row.account],
        ["action", (row) => row.action],
        ["target", (row) => row.target],
        ["outcome", (row) => row.outcome],
        ["fields", (row) => row.fields.join(", ")],
      ],
      rows,
      { empty: "No changes in this time." },
    );
  },
};

const AGO_MS: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000 };

/** This list takes no relative times. */
function momentOf(text: string | undefined, nowMs: number): string | undefined {
  const [, count, unit = ""] = /^-(\d{1,5})([mhd])$/.exec(since(text) ?? "") ?? [];
  return count === undefined ? text : new Date(nowMs - Number(count) * (AGO_MS[unit] ?? 0)).toISOString();
}

export const OPERATOR_COMMANDS: readonly Command[] = [list, create, role, revoke, events];
