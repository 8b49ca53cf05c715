/** Keys in bodies and answers: the same for the operator's API and for owners who manage their account's keys. */
import * as z from "zod/mini";
import type { Used } from "../../core/account/account-views.ts";
import type { Ceiling } from "../../core/account/permissions.ts";
import {
  type Changes,
  type Key,
  type KeyFields,
  NEW_KEY,
  NO_LIMITS,
  ROLES,
  SCOPES,
} from "../../core/account/tenant.ts";
import { asId, type TeamId } from "../../core/ids.ts";
import { characters } from "../../core/shapes.ts";
import { limitAnswers, limitFields, MODEL_NAME, name, time, timeAnswer, usedAnswers } from "./fields.ts";
import { limitsFrom, limitsIn, serializeLimits, serializeUsed, toIso, toIsoOrNull } from "./serializers.ts";

const allowed = z
  .string()
  .check(
    z.refine(
      (entry) => MODEL_NAME.test(entry) && !entry.slice(0, -1).includes("*"),
      "must be a model's name, or a beginning and `*`",
    ),
  );

/** A name has at most 200 characters. */
const MOST_MODELS = 200;
const METADATA_ENTRIES = 50;
/** As JSON, in UTF-8. */
const METADATA_BYTES = 4_096;
const bytesOf = (value: unknown): number => new TextEncoder().encode(JSON.stringify(value)).length;
const metadata = z.record(characters(1, 64), z.string().check(z.maxLength(500))).check(
  z.refine(
    (entries) => Object.keys(entries).length <= METADATA_ENTRIES,
    `must have at most ${METADATA_ENTRIES} entries`,
  ),
  z.refine((entries) => bytesOf(entries) <= METADATA_BYTES, `must have at most ${METADATA_BYTES} bytes as JSON`),
);

const fields = {
  name,
  team: z.nullish(z.string().check(z.maxLength(100))).check(z.describe("Id of a live team of this account")),
  user: z.nullish(z.int().check(z.minimum(0))).check(z.describe("The person that the key belongs to")),
  role: z.optional(z.enum(ROLES)).check(z.describe("`member` where absent")),
  scopes: z
    .optional(
      z.array(z.enum(SCOPES)).check(
        z.minLength(1),
        z.refine((scopes) => new Set(scopes).size === scopes.length, "must not name a scope twice"),
      ),
    )
    .check(z.describe('`["inference"]` where absent')),
  models: z
    .nullish(z.array(allowed).check(z.maxLength(MOST_MODELS)))
    .check(z.meta({ description: "Names, or beginnings with `*`; null: every model", example: ["chat", "llama-*"] })),
  expires_at: z.nullish(time),
  blocked: z.optional(z.boolean()),
  metadata: z.optional(metadata),
  ...limitFields,
};
export const KeyBody = z.strictObject(fields).register(z.globalRegistry, { id: "KeyBody" });
export const KeyPatch = z
  .strictObject({ ...fields, name: z.optional(name) })
  .register(z.globalRegistry, { id: "KeyPatch" });
type KeyBodyOutput = z.output<typeof KeyBody>;
type KeyPatchBody = z.output<typeof KeyPatch>;

/** The longest grace of a rotation, in seconds: 30 days. */
const LONGEST_GRACE_SECONDS = 30 * 24 * 60 * 60;
export const RotateBody = z
  .strictObject({
    grace_seconds: z
      ._default(z.number().check(z.minimum(0), z.maximum(LONGEST_GRACE_SECONDS)), 0)
      .check(z.describe("How long the old secret works on")),
  })
  .register(z.globalRegistry, { id: "RotateBody" });

/** A key as its own holder reads it with the account. */
export const HeldKeyAnswer = z
  .object({
    id: z.string(),
    name: z.string(),
    team: z.nullable(z.string()),
    user: z.nullable(z.int()),
    role: z.enum(ROLES),
    scopes: z.array(z.enum(SCOPES)),
    models: z.nullable(z.array(z.string())),
    expires_at: z.nullable(timeAnswer),
    blocked: z.boolean(),
    metadata: z.record(z.string(), z.string()),
    last_four: z.string(),
    created_at: timeAnswer,
    revoked_at: z.nullable(timeAnswer),
    ...limitAnswers,
  })
  .register(z.globalRegistry, { id: "HeldKey" });
export const KeyAnswer = z.extend(HeldKeyAnswer, usedAnswers).register(z.globalRegistry, { id: "Key" });
export const NewKeyAnswer = z
  .extend(KeyAnswer, {
    key: z
      .nullable(z.string())
      .check(z.describe("The secret, shown this once; null in the answer to a repeat: rotate the key to get one")),
  })
  .register(z.globalRegistry, { id: "NewKey" });

export const serializeHeldKey = (key: Key) => ({
  id: key.id,
  name: key.name,
  team: key.team,
  user: key.user,
  role: key.role,
  scopes: [...key.scopes],
  models: key.models === null ? null : [...key.models],
  expires_at: toIsoOrNull(key.expiresAtMs),
  blocked: key.blocked,
  metadata: { ...key.metadata },
  last_four: key.lastFour,
  created_at: toIso(key.createdAtMs),
  revoked_at: toIsoOrNull(key.revokedAtMs),
  ...serializeLimits(key.limits),
});

/** `used`: absent of a key that was just made. */
export const serializeKey = (key: Key, used?: Used) => ({ ...serializeHeldKey(key), ...serializeUsed(used) });

/** Fields that the body omits come from the key that creates the new one, so that no default exceeds its ceiling. */
export const newKeyFrom = (body: KeyBodyOutput, maker: Ceiling): KeyFields => ({
  ...NEW_KEY,
  name: body.name,
  ...(maker && inherited(maker)),
  ...keyFieldsIn(body),
  limits: limitsFrom(body, maker?.limits ?? NO_LIMITS),
});

const inherited = ({ team, models, expiresAtMs, scopes }: Key): Partial<KeyFields> => ({
  team,
  models,
  expiresAtMs,
  scopes: scopes.includes("inference") ? ["inference"] : scopes,
});

/** Only the fields that the body names. */
export const keyChangesFrom = (body: KeyPatchBody): Changes<KeyFields> => {
  const limits = limitsIn(body);
  return { ...keyFieldsIn(body), ...(limits && { limits }) };
};

/** The same without limits. */
const keyFieldsIn = (body: KeyPatchBody): Partial<Omit<KeyFields, "limits">> => ({
  ...(body.name !== undefined && { name: body.name }),
  ...(body.team !== undefined && { team: body.team === null ? null : asId<TeamId>(body.team) }),
  ...(body.user !== undefined && { user: body.user }),
  ...(body.role !== undefined && { role: body.role }),
  ...(body.scopes !== undefined && { scopes: body.scopes }),
  ...(body.models !== undefined && { models: body.models }),
  ...(body.expires_at !== undefined && { expiresAtMs: body.expires_at }),
  ...(body.blocked !== undefined && { blocked: body.blocked }),
  ...(body.metadata !== undefined && { metadata: body.metadata }),
});
