import { expect, it } from "vitest";
import { hasRoomFor, keyRow, launchedKey, MOST_KEYS } from "../../../src/core/compute/key-rules.ts";
import { launchedRow } from "../../support/compute/rows.ts";
import { ED25519 } from "../../support/compute/ssh-keys.ts";

const { by } = launchedRow(null);
const made = (id: number, fingerprint = `SHA256:${id}`) =>
  keyRow(`key ${id}`, ED25519, fingerprint, { id, tag: `tag-${id}`, by, nowMs: 1 });
const full = Array.from({ length: MOST_KEYS }, (_, index) => made(1000 + index));

it("an account has room for 200 keys, and then for none but those it has", () => {
  expect(hasRoomFor(full.slice(1), "SHA256:new")).toBe(true);
  expect(hasRoomFor(full, "SHA256:new")).toBe(false);
  expect(hasRoomFor(full, "SHA256:1000")).toBe(true);
  expect(hasRoomFor([{ ...made(1), deletedAtMs: 2 }, ...full.slice(1)], "SHA256:new")).toBe(true);
});

it("a launch's key is kept once, under its comment or the machine's name", () => {
  const place = { id: 1001, tag: "tag", nowMs: 5 };
  const launchOf = (sshPublicKey: string | null, sshFingerprint: string | null) => {
    const row = launchedRow(null);
    return { by, launched: { ...row.launched, sshPublicKey, sshFingerprint } };
  };
  const plain = ED25519.split(" ").slice(0, 2).join(" ");
  expect(launchedKey(launchOf(ED25519, "SHA256:x"), [], place)).toMatchObject({ name: "a b", fingerprint: "SHA256:x" });
  expect(launchedKey(launchOf(plain, "SHA256:x"), [], place)).toMatchObject({ name: "trainer", publicKey: plain });
  expect(launchedKey(launchOf(ED25519, "SHA256:x"), [made(1000, "SHA256:x")], place)).toBeUndefined();
  expect(launchedKey(launchOf(null, null), [], place)).toBeUndefined();
});
