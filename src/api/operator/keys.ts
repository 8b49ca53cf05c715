/** `/admin/accounts/{account}/keys`: virtual keys. A secret is shown once, where it is made. */
import * as z from "zod";
import { asId, type TeamId } from "../../core/ids.ts";
import { type AdminContext, type AdminRoutes, known, theAccount, theLiveAccount } from "../kit/context.ts";
import { Deleted, deleted, listOf, numberedPage, pageRequest } from "../kit/fields.ts";
import { changeKey, type KeyRing, makeKey, readKey, readLiveKey, revokeKey, rotateKey } from "../kit/key-operations.ts";
import {
  KeyAnswer,
  KeyBody,
  KeyPatch,
  keyChangesFrom,
  NewKeyAnswer,
  newKeyFrom,
  RotateBody,
  serializeKey,
} from "../kit/key-schema.ts";
import { answers, created, ok, route } from "../kit/route.ts";

const create = route({
  id: "createKey",
  method: "post",
  path: "/admin/accounts/{account}/keys",
  summary: "Make a key; its secret is shown in this answer only",
  body: KeyBody,
  answers: { 201: answers("The key with its secret", NewKeyAnswer) },
});
const list = route({
  id: "listKeys",
  method: "get",
  path: "/admin/accounts/{account}/keys",
  summary: "List the keys that are not revoked",
  query: z.strictObject({ ...numberedPage, team: z.string().optional().meta({ description: "Those of this team" }) }),
  answers: { 200: answers("Keys, oldest first", listOf(KeyAnswer)) },
});
const get = route({
  id: "getKey",
  method: "get",
  path: "/admin/accounts/{account}/keys/{key}",
  summary: "Read a key, revoked ones too",
  answers: { 200: answers("The key", KeyAnswer) },
});
const patch = route({
  id: "updateKey",
  method: "patch",
  path: "/admin/accounts/{account}/keys/{key}",
  summary: "Change what is named, leave the rest; `blocked` holds from the moment it is answered",
  body: KeyPatch,
  answers: { 200: answers("The key", KeyAnswer) },
});
const remove = route({
  id: "revokeKey",
  method: "delete",
  path: "/admin/accounts/{account}/keys/{key}",
  summary: "Revoke a key for good, from the moment it is answered",
  answers: { 200: answers("Revoked", Deleted) },
});
const rotate = route({
  id: "rotateKey",
  method: "post",
  path: "/admin/accounts/{account}/keys/{key}/rotate",
  summary: "Give a key a new secret; the old one works until the grace ends",
  body: RotateBody,
  bodyOptional: true,
  answers: { 200: answers("The key with its new secret", NewKeyAnswer) },
});

export function addKeys(api: AdminRoutes): void {
  api.add(create, async ({ work: context, params, body }) => {
    const ring = await liveRing(context, params.account);
    const made = await makeKey(context, ring, newKeyFrom(body));
    return created({ ...serializeKey(made.key), key: made.secret });
  });

  api.add(list, async ({ work: context, params, query }) => {
    const { account: id } = params;
    const { object } = await theAccount(context, id);
    const team = query.team === undefined ? undefined : asId<TeamId>(query.team);
    const page = known(await object.keys(pageRequest(query), team), "account", id);
    return ok({ data: page.data.map(serializeKey), next_cursor: page.nextCursor });
  });

  api.add(get, async ({ work: context, params }) => {
    const { account: id, key: keyId } = params;
    const { row, object } = await theAccount(context, id);
    const found = await readKey({ account: row.id, number: row.number, object }, keyId);
    return ok(serializeKey(found));
  });

  api.add(patch, async ({ work: context, params, body }) => {
    const { account: id, key: keyId } = params;
    const ring = await liveRing(context, id);
    const current = await readLiveKey(ring, keyId);
    return ok(serializeKey(await changeKey(ring, current.id, keyChangesFrom(body))));
  });

  api.add(remove, async ({ work: context, params }) => {
    const { account: id, key: keyId } = params;
    await revokeKey(context, await liveRing(context, id), keyId);
    return ok(deleted(keyId));
  });

  api.add(rotate, async ({ work: context, params, body }) => {
    const { account: id, key: keyId } = params;
    const ring = await liveRing(context, id);
    const current = await readLiveKey(ring, keyId);
    const graceMs = Math.round(body.grace_seconds * 1000);
    const rotated = await rotateKey(context, ring, current.id, graceMs);
    return ok({ ...serializeKey(rotated.key), key: rotated.secret });
  });
}

async function liveRing(context: AdminContext, account: string): Promise<KeyRing> {
  const { row, object } = await theLiveAccount(context, account);
  return { account: row.id, number: row.number, object };
}
