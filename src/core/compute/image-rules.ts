/** The rules of an account's container images. registrations.ts says what a registration may hold and change. */
import type { Refused } from "../outcome.ts";
import { type Decision, type Facts, findRow, invalid, refuse } from "./facts.ts";
import { CHANGE_TAKES_MS, imageSent, isLocal, registrationOf } from "./image-life.ts";
import {
  changeImage,
  type ImageBody,
  type Registration,
  readReference,
  registerImage,
  sameImage,
} from "./registrations.ts";
import type { ImageRow } from "./resource.ts";
import { formatTag } from "./tag.ts";

/** Images of an account: each tag is one of its own. */
const MOST_IMAGES = 500;

const NOT_FOUND = refuse({ kind: "not_found", what: "image" });

/** The account's other images, with those whose registration is under way. */
const othersOf = ({ rows }: Facts, id: number | null): Registration[] =>
  rows.flatMap((row) => (row.kind === "image" && row.deletedAtMs === null && row.id !== id ? registrationOf(row) : []));

/** POST. */
export function addImage(facts: Facts, body: ImageBody & { name: string; registry_url: string }): Decision {
  const others = othersOf(facts, null);
  const decided = registerImage(body, { shared: facts.shared, others });
  if (!decided.ok) return decided;
  if (others.length >= MOST_IMAGES) return refuse({ kind: "too_many", what: "image", most: MOST_IMAGES });
  const { after, request } = decided;
  const { nextId: id, account, deployment, random, by, nowMs } = facts;
  const row: ImageRow = {
    kind: "image",
    id,
    tag: formatTag({ deployment, account, id, random }),
    by,
    createdAtMs: nowMs,
    changedAtMs: nowMs,
    upstreamId: null,
    create: request === null ? "done" : "unknown",
    hiddenAtMs: null,
    name: after.name,
    registryUrl: after.registryUrl,
    registryUsername: after.username,
    hasCredentials: after.username !== null,
    settled: true,
    changingSinceMs: null,
    deletedAtMs: null,
    sending: null,
    gone: false,
    missing: { lists: 0, askedAtMs: 0 },
  };
  return { ok: true, row, acts: [], call: request && { verb: "register", image: request } };
}

/** PUT. A new name stays here; the rest goes upstream before it stands here. */
export function putImage(facts: Facts, id: number, body: ImageBody): Decision {
  const row = findRow(facts, "image", id);
  if (!row || row.deletedAtMs !== null) return NOT_FOUND;
  const { settled, changingSinceMs } = row;
  const decided = changeImage(registrationOf(row), settled, body, {
    shared: facts.shared || isLocal(row),
    others: othersOf(facts, id),
  });
  if (!decided.ok) return decided;
  if (changingSinceMs !== null && facts.nowMs < changingSinceMs + CHANGE_TAKES_MS) {
    return refuse({ kind: "state", what: "image", why: "changing" });
  }
  const { after, request } = decided;
  if (request !== null) {
    const call = { verb: "change", image: request, after, settled } as const;
    return { ok: true, row: imageSent(row, call, facts.nowMs), acts: [], call };
  }
  return { ok: true, row: { ...row, name: after.name, registryUrl: after.registryUrl }, acts: [], call: null };
}

/** DELETE. The registration and its credential are deleted upstream, repeated until a list shows it. */
export function removeImage(facts: Facts, id: number): Decision {
  const row = findRow(facts, "image", id);
  if (!row || row.deletedAtMs !== null) return NOT_FOUND;
  const deleted: ImageRow = { ...row, deletedAtMs: facts.nowMs };
  if (isLocal(row)) return { ok: true, row: { ...deleted, gone: true }, acts: [], call: null };
  const call = { verb: "remove" } as const;
  return { ok: true, row: imageSent(deleted, call, facts.nowMs), acts: [], call };
}

/**
 * On a shared seat upstream would pull what is registered there with a credential that is none of this account's. A
 * reference that we cannot read may be read otherwise there.
 */
export function imageRefusal({ shared, registered }: Facts, image: string): Refused | undefined {
  if (!shared) return undefined;
  if (!readReference(image)) {
    return invalid("container_image", "must be an image reference such as `registry.example.com/team/image:1.0`");
  }
  if (!registered.some((reference) => sameImage(reference, image))) return undefined;
  return invalid("container_image", "is not offered on this account. Use a platform image or another public one");
}
