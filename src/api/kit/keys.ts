/**
 * Virtual keys: `/admin/accounts/{account}/keys` for the operator, `/account/keys` for owners and admins, with the same
 * bodies. A secret is shown once, when it is created. The account object decides and stores; the edge caches are
 * updated too, but nothing depends on that.
 */

import type { Env } from "hono";
import * as z from "zod/mini";
import { READERS } from "../../core/account/operators.ts";
import { sees } from "../../core/account/permissions.ts";
import type { Key } from "../../core/account/tenant.ts";
import { asId, type KeyDigest, type KeyId, type TeamId } from "../../core/ids.ts";
import { known } from "./context.ts";
import { Deleted, deleted, listOf, numberedPage, pageRequest } from "./fields.ts";
import {
  KeyAnswer,
  KeyBody,
  KeyPatch,
  keyChangesFrom,
  NewKeyAnswer,
  newKeyFrom,
  RotateBody,
  serializeKey,
} from "./key-schema.ts";
import { type ManagedAt, type Manager, manageKey, oneWithUsed, requireManager, withUsed } from "./manager.ts";
import { notFound } from "./problem.ts";
import { type ApiRoutes, answers, created, ok, route } from "./route.ts";

const routesAt = ({ base, refusals }: ManagedAt<never>) => ({
  create: route({
    id: "createKey",
    method: "post",
    path: `${base}/keys`,
    summary: "Make a key; its secret is shown in this answer only",
    body: KeyBody,
    answers: { 201: answers("The key with its secret", NewKeyAnswer) },
    secret: "key",
    refusals,
  }),
  list: route({
    id: "listKeys",
    method: "get",
    path: `${base}/keys`,
    roles: READERS,
    summary: "List the keys that are not revoked; a key of a team sees that team's",
    query: z.strictObject({ ...numberedPage, team: z.optional(z.string()).check(z.describe("Those of this team")) }),
    answers: { 200: answers("Keys, oldest first", listOf(KeyAnswer)) },
    refusals,
  }),
  get: route({
    id: "getKey",
    method: "get",
    path: `${base}/keys/{key}`,
    roles: READERS,
    summary: "Read a key, revoked ones too",
    answers: { 200: answers("The key", KeyAnswer) },
    refusals,
  }),
  patch: route({
    id: "updateKey",
    method: "patch",
    path: `${base}/keys/{key}`,
    roles: { support: ["blocked"] },
    summary: "Change what is named, leave the rest; `blocked` holds from the moment it is answered",
    body: KeyPatch,
    answers: { 200: answers("The key", KeyAnswer) },
    refusals,
  }),
  remove: route({
    id: "revokeKey",
    method: "delete",
    path: `${base}/keys/{key}`,
    roles: { support: "all" },
    summary: "Revoke a key for good, from the moment it is answered",
    answers: { 200: answers("Revoked", Deleted) },
    refusals,
  }),
  rotate: route({
    id: "rotateKey",
    method: "post",
    path: `${base}/keys/{key}/rotate`,
    summary: "Give a key a new secret; the old one works until the grace ends",
    body: RotateBody,
    bodyOptional: true,
    answers: { 200: answers("The key with its new secret", NewKeyAnswer) },
    secret: "key",
    refusals,
  }),
});

export function addKeys<Work, Bindings extends Env>(api: ApiRoutes<Work, Bindings>, at: ManagedAt<Work>): void {
  const { create, list, get, patch, remove, rotate } = routesAt(at);

  api.add(create, async ({ work, params, body, making }) => {
    const manager = await at.managerOf(work, params, "change");
    const id = asId<KeyId>(making.id("key_"));
    const secret = await newSecret(manager);
    const { key, anew } = await manageKey(manager, {
      kind: "create_key",
      id,
      digest: secret.digest,
      lastFour: secret.lastFour,
      fields: newKeyFrom(body, manager.ceiling),
    });
    if (anew) tellEdge(manager, secret.digest, id);
    return created({ ...serializeKey(key), key: anew ? secret.text : null });
  });

  api.add(list, async ({ work, params, query }) => {
    const manager = await at.managerOf(work, params, "read");
    requireManager(manager);
    const asked = query.team === undefined ? undefined : asId<TeamId>(query.team);
    if (asked !== undefined && !sees(manager.ceiling, asked)) return ok({ data: [], next_cursor: null });
    const team = asked ?? manager.ceiling?.team ?? undefined;
    const page = known(await manager.object.keys(pageRequest(query), team), "account", manager.account);
    return ok({ data: await shown(manager, page.data), next_cursor: page.nextCursor });
  });

  api.add(get, async ({ work, params }) => {
    const manager = await at.managerOf(work, params, "read");
    requireManager(manager);
    const key = known(await manager.object.key(asId<KeyId>(params.key)), "key", params.key);
    if (!sees(manager.ceiling, key.team)) throw notFound("key", params.key);
    return ok(await shownKey(manager, key));
  });

  api.add(patch, async ({ work, params, body }) => {
    const manager = await at.managerOf(work, params, "change");
    const changes = keyChangesFrom(body);
    const { key } = await manageKey(manager, { kind: "amend_key", id: asId<KeyId>(params.key), changes });
    return ok(await shownKey(manager, key));
  });

  api.add(remove, async ({ work, params }) => {
    const manager = await at.managerOf(work, params, "change");
    const { digests } = await manageKey(manager, { kind: "revoke_key", id: asId<KeyId>(params.key) });
    manager.context.edge.keysDropped(digests);
    return ok(deleted(params.key));
  });

  api.add(rotate, async ({ work, params, body, making }) => {
    const manager = await at.managerOf(work, params, "change");
    const id = asId<KeyId>(params.key);
    const secret = await newSecret(manager);
    const graceMs = Math.round(body.grace_seconds * 1000);
    const { key, digests, anew } = await manageKey(manager, {
      kind: "rotate_key",
      id,
      ref: making.ref,
      digest: secret.digest,
      lastFour: secret.lastFour,
      graceMs,
    });
    if (anew && graceMs === 0) manager.context.edge.keysDropped(digests);
    if (anew) tellEdge(manager, secret.digest, id);
    return ok({ ...serializeKey(key), key: anew ? secret.text : null });
  });
}

const shown = (manager: Manager, keys: readonly Key[]) => withUsed(manager, "keys", keys, serializeKey);
const shownKey = (manager: Manager, key: Key) => oneWithUsed(manager, "keys", key, serializeKey);

const newSecret = ({ context, number }: Manager) => context.secrets.newKey(number);

const tellEdge = ({ context, account, number }: Manager, digest: KeyDigest, keyId: KeyId): void =>
  context.edge.keyMade(digest, { account, number, keyId });
