/** `tollgate key ...`: keys of tenants. */
import type { Schemas } from "../../client/operator.ts";
import { CHANGING, type Command, type Work } from "../command.ts";
import { confirmed } from "../confirm.ts";
import { fault, missing, usage } from "../failure.ts";
import type { Gateway } from "../gateway.ts";
import { usd, when, yes } from "../show/cells.ts";
import type { Column } from "../show/table.ts";
import { since } from "./calls.ts";
import { collected } from "./collected.ts";
import { SECRET_OPTIONS, secretPlace } from "./secret-place.ts";

const KEY_COLUMNS: readonly Column<Schemas["Key"]>[] = [
  ["id", (key) => key.id],
  ["name", (key) => key.name],
  ["team", (key) => key.team],
  ["role", (key) => key.role],
  ["ends_with", (key) => `...${key.last_four}`],
  ["blocked", (key) => yes(key.blocked)],
  ["spent_usd", (key) => usd(key.spent_usd)],
  ["last_used", (key) => when(key.last_used_at)],
  ["expires", (key) => when(key.expires_at)],
];

const account = { name: "account" } as const;
const key = { name: "key" } as const;

const list: Command = {
  words: "key list",
  args: [account],
  about: "The keys of an account that are not revoked",
  options: [{ name: "team", value: "ID", about: "those of this team" }],
  examples: ["key list acme"],
  async run({ arg, given, gateway, print }) {
    const query = { team: given.text("team") };
    const keys = await collected(gateway().rows("listKeys", { account: arg("account"), query }));
    await print.rows(KEY_COLUMNS, keys, { empty: "No keys. 'tollgate key create' makes one." });
  },
};

const create: Command = {
  words: "key create",
  args: [account, { name: "name" }],
  about: "Make a key; its secret goes to a file",
  options: [
    { name: "team", value: "ID", about: "in this team" },
    { name: "role", value: "WORD", about: "owner, admin or member (member)" },
    { name: "models", value: "LIST", about: "names or beginnings with *, between commas (all)" },
    { name: "expires", value: "TIME", about: "such as 2027-01-31" },
    ...SECRET_OPTIONS,
  ],
  examples: ["key create acme ci --out keys.csv", "key create acme ops --role owner --show"],
  async run(work) {
    const { arg, given, gateway } = work;
    const keep = secretPlace(work);
    const role = given.text("role");
    if (role !== undefined && role !== "owner" && role !== "admin" && role !== "member") {
      throw usage("--role must be owner, admin or member.");
    }
    const models = given.text("models")?.split(",");
    const [team, expires_at] = [given.text("team"), given.text("expires")];
    const body: Schemas["KeyBody"] = {
      name: arg("name"),
      ...(team !== undefined && { team }),
      ...(role !== undefined && { role }),
      ...(models && { models: models.map((name) => name.trim()) }),
      ...(expires_at !== undefined && { expires_at }),
    };
    const made = await gateway().run("createKey", { account: arg("account"), body });
    await keep({
      account: arg("account"),
      name: made.name,
      keyId: made.id,
      secret: await secretOf(gateway(), arg("account"), made),
    });
  },
};

/** The answer to a repeat, whose first answer was lost, has no secret: nobody has it, so the key gets another. */
export async function secretOf(gateway: Gateway, of: string, made: Schemas["NewKey"]): Promise<string> {
  if (made.key !== null) return made.key;
  for (let attempt = 0; attempt < 3; attempt++) {
    const rotated = await gateway.run("rotateKey", { account: of, key: made.id, body: {} });
    if (rotated.key !== null) return rotated.key;
  }
  throw fault(`The secret of ${made.id} got lost on its way. Run: tollgate key rotate ${of} ${made.id} --out FILE`);
}

const rotate: Command = {
  words: "key rotate",
  args: [account, key],
  about: "Give a key a new secret; the old one works until the grace ends",
  options: [
    { name: "grace", value: "SECONDS", about: "how long the old secret works on (0)" },
    ...SECRET_OPTIONS,
    ...CHANGING,
  ],
  examples: ["key rotate acme key_1 --grace 86400 --out keys.csv"],
  async run(work) {
    const { arg, given, gateway } = work;
    const keep = secretPlace(work);
    const grace = Number(given.text("grace") ?? 0);
    if (!(grace >= 0 && grace <= 30 * 86_400)) throw usage("--grace must be 0 to 2592000 seconds.");
    const found = await gateway().run("getKey", { account: arg("account"), key: arg("key") });
    const until = grace === 0 ? "stops at once" : `works ${grace} s longer`;
    if (!(await confirmed(work, `Rotate ${described(found)}? The old secret ${until}.`))) return;
    const body = { grace_seconds: grace };
    const made = await gateway().run("rotateKey", { account: arg("account"), key: arg("key"), body });
    await keep({
      account: arg("account"),
      name: made.name,
      keyId: made.id,
      secret: await secretOf(gateway(), arg("account"), made),
    });
  },
};

const described = ({ id, name, last_four }: Schemas["Key"]): string => `the key ${id} (${name}, ...${last_four})`;

const revoke: Command = {
  words: "key revoke",
  args: [account, key],
  about: "Revoke a key for good, from the moment it is answered",
  options: CHANGING,
  examples: ["key revoke acme key_1 --yes"],
  async run(work) {
    const { arg, gateway, print } = work;
    const found = await gateway().run("getKey", { account: arg("account"), key: arg("key") });
    if (found.revoked_at !== null) {
      await print.thing([["already revoked", when(found.revoked_at)]], found);
      return;
    }
    if (!(await confirmed(work, `Revoke ${described(found)} for good?`))) return;
    await gateway().run("revokeKey", { account: arg("account"), key: arg("key") });
    await print.thing([["revoked", arg("key")]], { id: arg("key"), revoked: true });
  },
};

const blocking = (blocked: boolean): Command => ({
  words: blocked ? "key block" : "key unblock",
  args: [account, key],
  about: blocked ? "Stop a key, until it is unblocked" : "Let a blocked key work again",
  options: CHANGING,
  async run(work: Work) {
    const { arg, gateway, print } = work;
    const found = await gateway().run("getKey", { account: arg("account"), key: arg("key") });
    if (!(await confirmed(work, `${blocked ? "Block" : "Unblock"} ${described(found)}?`))) return;
    const changed = await gateway().run("updateKey", { account: arg("account"), key: arg("key"), body: { blocked } });
    await print.thing(
      [
        ["id", changed.id],
        ["blocked", yes(changed.blocked)],
      ],
      changed,
    );
  },
});

const LONGEST_KEY = 300;

const find: Command = {
  words: "key find",
  args: [{ name: "last-four", optional: true }],
  about: "Whose key is it: by its last four characters, or the whole key from standard input",
  more: "A whole key is not taken from the command line, which others can read.",
  examples: ["key find 9f3K", "key find < leaked-key.txt"],
  async run({ argOr, io, gateway, print }) {
    const four = argOr("last-four");
    if (four !== undefined && !/^[0-9A-Za-z]{4}$/.test(four)) {
      throw usage(
        "Give the last four characters alone; the whole key goes to standard input: tollgate key find < file.",
      );
    }
    const whole = four === undefined ? (await wholeKey(io)).trim() : "";
    if (four === undefined && whole === "") throw usage("No key was given. Add --help to see how.");
    const { data } = await gateway().run("lookupKey", {
      body: four === undefined ? { key: whole } : { last_four: four },
    });
    await print.rows(
      [
        ["account", (row) => row.account],
        ["account_name", (row) => row.account_name],
        ["id", (row) => row.key.id],
        ["name", (row) => row.key.name],
        ["secret", (row) => row.secret],
        ["blocked", (row) => yes(row.key.blocked)],
        ["revoked", (row) => when(row.key.revoked_at)],
        ["spent_usd", (row) => usd(row.key.spent_usd)],
        ["last_used", (row) => when(row.key.last_used_at)],
      ],
      data,
      { json: { data } },
    );
    if (data.length === 0) throw missing("It is nobody's key here.");
  },
};

const wholeKey = async (io: Work["io"]): Promise<string> =>
  (await io.question("Key (not shown): ", true)) ?? (await io.input(LONGEST_KEY));

const activity: Command = {
  words: "key activity",
  args: [key],
  about: "What a key did: by hour, model and country",
  options: [
    { name: "since", value: "TIME", about: "24h, 7d or 2026-11-22 (7d)" },
    { name: "until", value: "TIME", about: "before then" },
    { name: "account", value: "ID", about: "of the key, where it was made a moment ago" },
  ],
  examples: ["key activity key_1 --since 24h"],
  async run({ arg, given, gateway, print }) {
    const query = { from: since(given.text("since")), to: since(given.text("until")), account: given.text("account") };
    const found = await gateway().run("getKeyActivity", { id: arg("key"), query });
    const rows = [
      { by: "all", name: `${found.key} of ${found.account}`, ...found },
      ...found.models.map((row) => ({ by: "model", name: row.model, ...row })),
      ...found.countries.map((row) => ({ by: "country", name: row.country ?? "(not known)", ...row })),
      ...found.hours.map((row) => ({ by: "hour", name: when(row.hour), ...row })),
    ];
    await print.rows(
      [
        ["by", (row) => row.by],
        ["name", (row) => row.name],
        ["calls", (row) => row.calls],
        ["errors", (row) => row.errors],
        ["charged_usd", (row) => usd(row.charged_usd)],
      ],
      rows,
      { json: found },
    );
  },
};

export const KEY_COMMANDS: readonly Command[] = [
  find,
  activity,
  list,
  create,
  rotate,
  revoke,
  blocking(true),
  blocking(false),
];
