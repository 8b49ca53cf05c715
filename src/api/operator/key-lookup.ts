/**
 * Whose key is it, and what did it do: for a key that was found where it should not be. The key stands in the body and
 * nowhere else: it is neither logged nor stored, and no URL has it.
 */
import * as z from "zod/mini";
import { shapeKey } from "../../core/account/api-key.ts";
import { READERS } from "../../core/account/operators.ts";
import { asId, type KeyId } from "../../core/ids.ts";
import { formatUsd } from "../../core/pricing/money.ts";
import { accountByNumber } from "../../platform/d1/accounts.ts";
import { type FoundKey, keyById, keysByLastFour } from "../../platform/d1/key-index.ts";
import { reportUsage, type UsageGroup, type UsageOrder, type UsageRow } from "../../platform/d1/usage-report.ts";
import { type AdminContext, type AdminRoutes, known, theAccount } from "../kit/context.ts";
import { moment, timeAnswer, usdAnswer } from "../kit/fields.ts";
import { KeyAnswer, serializeKey } from "../kit/key-schema.ts";
import { invalid } from "../kit/problem.ts";
import { answers, ok, route } from "../kit/route.ts";
import { toIso } from "../kit/serializers.ts";
import { someAtOnce } from "../kit/some-at-once.ts";

/** More keys than ever have the same last four characters by chance. */
const MOST_FOUND = 50;

const Found = z
  .object({
    account: z.string(),
    account_name: z.string(),
    secret: z
      .enum(["current", "earlier"])
      .check(z.describe("`earlier`: of a secret before a rotation, perhaps still in its grace")),
    key: KeyAnswer,
  })
  .register(z.globalRegistry, { id: "FoundKey" });

const lookup = route({
  id: "lookupKey",
  method: "post",
  path: "/admin/keys/lookup",
  roles: READERS,
  reads: true,
  summary: "Whose key is it: by the whole key, or by its last four characters",
  body: z
    .strictObject({
      key: z.optional(z.string().check(z.minLength(1), z.maxLength(200))).check(z.describe("The whole key")),
      last_four: z.optional(z.string().check(z.regex(/^[0-9A-Za-z]{4}$/, "must be four letters or digits"))),
    })
    .register(z.globalRegistry, { id: "KeyLookup" }),
  answers: {
    200: answers("Keys, also revoked ones; empty: nobody's", z.object({ data: z.array(Found) })),
  },
});

const sums = { calls: z.int(), errors: z.int(), charged_usd: usdAnswer };
const ActivityAnswer = z
  .object({
    account: z.string(),
    account_name: z.string(),
    key: z.string(),
    from: timeAnswer,
    to: timeAnswer,
    ...sums,
    hours: z
      .array(z.object({ hour: timeAnswer, ...sums }))
      .check(z.describe("Hours with calls, newest first; at most 1,000")),
    models: z.array(z.object({ model: z.string(), ...sums })),
    countries: z
      .array(z.object({ country: z.nullable(z.string()), ...sums }))
      .check(z.describe("Null: the edge did not know it, or the sums are from before it was kept")),
  })
  .register(z.globalRegistry, { id: "KeyActivity" });

const activity = route({
  id: "getKeyActivity",
  method: "get",
  path: "/admin/keys/{id}/activity",
  roles: READERS,
  summary: "What a key did, revoked ones too: by hour, model and country",
  query: z.strictObject({
    account: z.optional(z.string()).check(z.describe("Of the key, where the index does not have it yet")),
    from: z.optional(moment).check(z.describe("Inclusive; seven days ago where absent")),
    to: z.optional(moment).check(z.describe("Exclusive; now where absent")),
  }),
  answers: { 200: answers("Its activity", ActivityAnswer) },
});
const HOUR_MS = 3_600_000;
const WEEK_MS = 7 * 24 * HOUR_MS;
const MOST_HOURS = 1_000;
const MOST_ROWS = 1_000;

export function addKeyLookup(api: AdminRoutes): void {
  api.add(lookup, async ({ work: context, body }) => {
    const { key, last_four: lastFour } = body;
    if ((key === undefined) === (lastFour === undefined)) {
      throw invalid("key", "Send either `key` or `last_four`.");
    }
    const found =
      key === undefined ? await keysByLastFour(context.books, lastFour ?? "", MOST_FOUND) : await byKey(context, key);
    const data = (await someAtOnce(found, (one) => shown(context, one))).filter((one) => one !== undefined);
    const four = lastFour ?? key?.slice(-4);
    return ok({
      data: data.map((one) => ({ ...one, secret: one.key.last_four === four ? "current" : "earlier" }) as const),
    });
  });

  api.add(activity, async ({ work: context, params, query }) => {
    const { account, name } = await accountOf(context, params.id, query.account);
    const toMs = query.to ?? context.now();
    const fromMs = query.from ?? Math.max(0, toMs - WEEK_MS - ((toMs - WEEK_MS) % HOUR_MS));
    if (fromMs > toMs) throw invalid("from", "`from` must not be after `to`.");
    const asked = { fromMs, toMs, account, key: params.id, offset: 0 };
    const by = (groupBy: readonly UsageGroup[], limit: number, orderBy: UsageOrder = "calls") =>
      reportUsage(context.books, { ...asked, groupBy, limit, orderBy });
    const [[all], hours, models, countries] = await Promise.all([
      by([], 1),
      by(["hour"], MOST_HOURS, "hour"),
      by(["model"], MOST_ROWS),
      by(["country"], MOST_ROWS),
    ]);
    return ok({
      account,
      account_name: name,
      key: params.id,
      from: toIso(fromMs),
      to: toIso(toMs),
      ...sumsOf(all),
      hours: hours.map((row) => ({ hour: toIso(Number(row.groups[0])), ...sumsOf(row) })),
      models: models.map((row) => ({ model: String(row.groups[0]), ...sumsOf(row) })),
      countries: countries.map((row) => ({
        country: row.groups[0] === null ? null : String(row.groups[0]),
        ...sumsOf(row),
      })),
    });
  });
}

const sumsOf = (row: UsageRow | undefined) => ({
  calls: row?.calls ?? 0,
  errors: row?.errors ?? 0,
  charged_usd: Number(formatUsd(row?.priceNanoUsd ?? 0n)),
});

type Shown = Omit<z.input<typeof Found>, "secret">;

/** The key says its account's number; the account's object knows its digest. A wrong tag is nobody's key. */
async function byKey({ books, secrets, account }: AdminContext, text: string): Promise<FoundKey[]> {
  const shaped = shapeKey(text.trim());
  const row = shaped && (await accountByNumber(books, shaped.number));
  if (!row) return [];
  const found = await account(row.number).findKey(await secrets.digestOf(shaped.text));
  return found ? [{ account: row.id, number: row.number, accountName: row.name, key: found.keyId }] : [];
}

async function shown(context: AdminContext, found: FoundKey): Promise<Shown | undefined> {
  const object = context.account(found.number);
  const id = asId<KeyId>(found.key);
  const [key, used] = await Promise.all([object.key(id), object.view("used", { keys: [id] })]);
  if (!key) return undefined;
  return { account: found.account, account_name: found.accountName, key: serializeKey(key, used?.[0]) };
}

async function accountOf(
  context: AdminContext,
  key: string,
  named: string | undefined,
): Promise<{ account: string; name: string }> {
  if (named !== undefined) {
    const { row, object } = await theAccount(context, named);
    known(await object.key(asId<KeyId>(key)), "key", key);
    return { account: row.id, name: row.name };
  }
  const found = known(await keyById(context.books, key), "key", key);
  return { account: found.account, name: found.accountName };
}
