/**
 * `/account/keys`: owners and admins manage their account's keys, by the same bodies as the operator. What a new key's
 * body leaves out it has from the key that makes it, so that nothing is refused for what nobody asked.
 */
import * as z from "zod";
import { sees } from "../../core/account/permissions.ts";
import type { Key, KeyFields } from "../../core/account/tenant.ts";
import { asId, type KeyId } from "../../core/ids.ts";
import { known } from "../kit/context.ts";
import { Deleted, deleted, listOf, numberedPage, pageRequest } from "../kit/fields.ts";
import {
  KeyAnswer,
  KeyBody,
  type KeyBodyOutput,
  KeyPatch,
  keyChangesFrom,
  keyFieldsIn,
  NewKeyAnswer,
  newKeyFrom,
  newKeyId,
  RotateBody,
  serializeKey,
} from "../kit/key-schema.ts";
import { notFound } from "../kit/problem.ts";
import { answers, created, ok, route } from "../kit/route.ts";
import { limitsFrom } from "../kit/serializers.ts";
import { actOnKey, requireManager } from "./delegate.ts";
import type { SelfServiceRoutes, Tenant } from "./self-service.ts";

const create = route({
  id: "createKey",
  refusals: [403],
  method: "post",
  path: "/account/keys",
  summary: "Make a key; its secret is shown in this answer only",
  body: KeyBody,
  answers: { 201: answers("The key with its secret", NewKeyAnswer) },
});
const list = route({
  id: "listKeys",
  refusals: [403],
  method: "get",
  path: "/account/keys",
  summary: "List the keys that are not revoked; a key of a team sees that team's",
  query: z.strictObject(numberedPage),
  answers: { 200: answers("Keys, oldest first", listOf(KeyAnswer)) },
});
const get = route({
  id: "getKey",
  refusals: [403],
  method: "get",
  path: "/account/keys/{key}",
  summary: "Read a key",
  answers: { 200: answers("The key", KeyAnswer) },
});
const patch = route({
  id: "updateKey",
  refusals: [403],
  method: "patch",
  path: "/account/keys/{key}",
  summary: "Change what is named, leave the rest",
  body: KeyPatch,
  answers: { 200: answers("The key", KeyAnswer) },
});
const remove = route({
  id: "revokeKey",
  refusals: [403],
  method: "delete",
  path: "/account/keys/{key}",
  summary: "Revoke a key for good, from the moment it is answered",
  answers: { 200: answers("Revoked", Deleted) },
});
const rotate = route({
  id: "rotateKey",
  refusals: [403],
  method: "post",
  path: "/account/keys/{key}/rotate",
  summary: "Give a key a new secret; the old one works until the grace ends",
  body: RotateBody,
  bodyOptional: true,
  answers: { 200: answers("The key with its new secret", NewKeyAnswer) },
});

export function addSelfKeys(api: SelfServiceRoutes): void {
  api.add(create, async ({ work: tenant, body }) => {
    const { context, caller, standing } = tenant;
    const secret = await context.secrets.newKey(caller.number);
    const id = newKeyId();
    const { key } = await actOnKey(tenant, {
      kind: "create_key",
      id,
      digest: secret.digest,
      lastFour: secret.lastFour,
      fields: heirOf(standing.key, body),
    });
    context.edge.keyMade(secret.digest, { account: caller.account, number: caller.number, keyId: id });
    return created({ ...serializeKey(key), key: secret.text });
  });

  api.add(list, async ({ work: tenant, query }) => {
    requireManager(tenant);
    const own = tenant.standing.key.team ?? undefined;
    const page = known(await tenant.object.keys(pageRequest(query), own), "account", tenant.caller.account);
    return ok({ data: page.data.map(serializeKey), next_cursor: page.nextCursor });
  });

  api.add(get, async ({ work: tenant, params }) => {
    requireManager(tenant);
    return ok(serializeKey(await seenKey(tenant, params.key)));
  });

  api.add(patch, async ({ work: tenant, params, body }) => {
    const changes = keyChangesFrom(body);
    const { key } = await actOnKey(tenant, { kind: "amend_key", id: asId<KeyId>(params.key), changes });
    return ok(serializeKey(key));
  });

  api.add(remove, async ({ work: tenant, params }) => {
    const { digests } = await actOnKey(tenant, { kind: "revoke_key", id: asId<KeyId>(params.key) });
    tenant.context.edge.keysDropped(digests);
    return ok(deleted(params.key));
  });

  api.add(rotate, async ({ work: tenant, params, body }) => {
    const { context, caller } = tenant;
    const secret = await context.secrets.newKey(caller.number);
    const id = asId<KeyId>(params.key);
    const graceMs = Math.round(body.grace_seconds * 1000);
    const { key, digests } = await actOnKey(tenant, {
      kind: "rotate_key",
      id,
      digest: secret.digest,
      lastFour: secret.lastFour,
      graceMs,
    });
    if (graceMs === 0) context.edge.keysDropped(digests);
    context.edge.keyMade(secret.digest, { account: caller.account, number: caller.number, keyId: id });
    return ok({ ...serializeKey(key), key: secret.text });
  });
}

async function seenKey({ object, standing }: Tenant, id: string): Promise<Key> {
  const key = known(await object.key(asId<KeyId>(id)), "key", id);
  if (!sees(standing.key, key.team)) throw notFound("key", id);
  return key;
}

/** The fields of a new key: the body's, else what the maker has. */
function heirOf(maker: Key, body: KeyBodyOutput): KeyFields {
  const scopes = maker.scopes.includes("inference") ? (["inference"] as const) : maker.scopes;
  return {
    ...newKeyFrom(body),
    team: maker.team,
    models: maker.models,
    expiresAtMs: maker.expiresAtMs,
    scopes,
    ...keyFieldsIn(body),
    limits: limitsFrom(body, maker.limits),
  };
}
