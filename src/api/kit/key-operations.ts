/**
 * What can be done to a key, for the operator and for owners alike: the account object decides and remembers, the edge
 * is told. Nothing here depends on the edge having heard.
 */

import type { AccountService } from "../../core/account/account-service.ts";
import type { Changes, Key, KeyFields } from "../../core/account/tenant.ts";
import { type AccountId, type AccountNumber, asId, type KeyId } from "../../core/ids.ts";
import { clipped } from "../../core/issue-words.ts";
import { type AdminContext, known } from "./context.ts";
import { newKeyId } from "./key-schema.ts";
import { conflict, invalid, notFound, tooMany } from "./problem.ts";

/** The account that keys are managed in. */
export interface KeyRing {
  readonly account: AccountId;
  readonly number: AccountNumber;
  readonly object: AccountService;
}

/** A key and its secret, which is shown once. */
export interface KeyWithSecret {
  readonly key: Key;
  readonly secret: string;
}

export async function makeKey(context: AdminContext, ring: KeyRing, fields: KeyFields): Promise<KeyWithSecret> {
  const id = newKeyId();
  const secret = await context.secrets.newKey(ring.number);
  const key = await ring.object.createKey(id, secret.digest, secret.lastFour, fields);
  if (key === "no_team") throw noTeam(fields.team);
  if (key && "kind" in key) throw tooMany("keys", key.most);
  context.edge.keyMade(secret.digest, { account: ring.account, number: ring.number, keyId: id });
  return { key: known(key, "account", ring.account), secret: secret.text };
}

/** Revoked ones too; unknown: 404. */
export async function readKey(ring: KeyRing, id: string): Promise<Key> {
  return known(await ring.object.key(asId<KeyId>(id)), "key", id);
}

export async function readLiveKey(ring: KeyRing, id: string): Promise<Key> {
  const key = await readKey(ring, id);
  if (key.revokedAtMs !== null) throw conflict("key_revoked", `The key '${id}' is revoked. Make a new one.`, "key");
  return key;
}

export async function changeKey(ring: KeyRing, id: KeyId, changes: Changes<KeyFields>): Promise<Key> {
  const key = await ring.object.amendKey(id, changes);
  if (key === "no_team") throw noTeam(changes.team ?? null);
  return known(key, "key", id);
}

/** Refused from the moment this is answered, whatever the edge still holds. */
export async function revokeKey(context: AdminContext, ring: KeyRing, id: string): Promise<void> {
  const revoked = known(await ring.object.revokeKey(asId<KeyId>(id)), "key", id);
  context.edge.keysDropped(revoked.digests);
}

export async function rotateKey(
  context: AdminContext,
  ring: KeyRing,
  id: KeyId,
  graceMs: number,
): Promise<KeyWithSecret> {
  const secret = await context.secrets.newKey(ring.number);
  const rotated = await ring.object.rotateKey(id, secret.digest, secret.lastFour, graceMs);
  if (!rotated) throw notFound("key", id);
  if (graceMs === 0) context.edge.keysDropped(rotated.digests.filter((digest) => digest !== secret.digest));
  context.edge.keyMade(secret.digest, { account: ring.account, number: ring.number, keyId: id });
  return { key: rotated.key, secret: secret.text };
}

const noTeam = (team: string | null) =>
  invalid("team", `\`team\` must name a live team of this account; there is no '${clipped(team ?? "")}'.`);
