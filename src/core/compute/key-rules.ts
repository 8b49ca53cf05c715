/**
 * The rules of an account's SSH keys. They live in its own rows: upstream gets only the key of a launch. A key is its
 * bytes, so it is kept once, under the name that it got first.
 */
import { type Decision, type Facts, findRow, refuse } from "./facts.ts";
import type { KeyRow, MadeBy, ResourceRow } from "./resource.ts";
import { readSshKey } from "./ssh.ts";
import { formatTag } from "./tag.ts";

/** Keys of an account. Launches save theirs, so there is a limit. */
export const MOST_KEYS = 200;

const isKept = (row: ResourceRow): row is KeyRow => row.kind === "ssh_key" && row.deletedAtMs === null;

const sameKey = (rows: readonly ResourceRow[], fingerprint: string | null): KeyRow | undefined =>
  rows.filter(isKept).find((row) => row.fingerprint === fingerprint);

/** Whether the key is there or may be added. */
export const hasRoomFor = (rows: readonly ResourceRow[], fingerprint: string | null): boolean =>
  sameKey(rows, fingerprint) !== undefined || rows.filter(isKept).length < MOST_KEYS;

export const tooManyKeys = () => refuse({ kind: "too_many", what: "ssh_key", most: MOST_KEYS });

interface KeyFacts {
  readonly id: number;
  readonly tag: string;
  readonly by: MadeBy;
  readonly nowMs: number;
}

/** A line that was checked, as a row. */
export function keyRow(name: string, line: string, fingerprint: string, { id, tag, by, nowMs }: KeyFacts): KeyRow {
  return {
    kind: "ssh_key",
    id,
    tag,
    by,
    createdAtMs: nowMs,
    changedAtMs: nowMs,
    upstreamId: null,
    create: "done",
    hiddenAtMs: null,
    name,
    publicKey: line,
    fingerprint,
    deletedAtMs: null,
  };
}

/** POST. A key that is there already is the answer to its repeat, with its own name. */
export function addKey(facts: Facts, { name, public_key }: { name: string; public_key: string }): Decision {
  const { rows, sshFingerprint, nextId: id, account, deployment, random, by, nowMs } = facts;
  if (sshFingerprint === null) throw new Error("an SSH key came without its fingerprint");
  const known = sameKey(rows, sshFingerprint);
  if (known) return { ok: true, row: known, acts: [], call: null };
  if (!hasRoomFor(rows, sshFingerprint)) return tooManyKeys();
  const tag = formatTag({ deployment, account, id, random });
  return { ok: true, row: keyRow(name, public_key, sshFingerprint, { id, tag, by, nowMs }), acts: [], call: null };
}

/** DELETE. Machines that run with it keep it. */
export function removeKey(facts: Facts, id: number): Decision {
  const row = findRow(facts, "ssh_key", id);
  if (!row || row.deletedAtMs !== null) return refuse({ kind: "not_found", what: "ssh_key" });
  return { ok: true, row: { ...row, deletedAtMs: facts.nowMs }, acts: [], call: null };
}

/**
 * The row for the key that a machine was launched with; undefined: the account has it. Its name is the comment in the
 * key, or else the machine's.
 */
export function launchedKey(
  launch: Pick<ResourceRow, "by"> & { readonly launched: LaunchedWithKey },
  rows: readonly ResourceRow[],
  { id, tag, nowMs }: Omit<KeyFacts, "by">,
): KeyRow | undefined {
  const { name, sshPublicKey, sshFingerprint } = launch.launched;
  if (sshPublicKey === null || sshFingerprint === null || sameKey(rows, sshFingerprint)) return undefined;
  const read = readSshKey(sshPublicKey);
  const comment = read.ok ? read.key.comment : null;
  return keyRow(comment?.slice(0, 200) ?? name, sshPublicKey, sshFingerprint, { id, tag, by: launch.by, nowMs });
}

interface LaunchedWithKey {
  readonly name: string;
  readonly sshPublicKey: string | null;
  readonly sshFingerprint: string | null;
}
