/**
 * Files that hold secrets: of mode 0600, ours, and no link, so that nothing is written or read where somebody else
 * pointed to.
 */

import { randomBytes } from "node:crypto";
import {
  closeSync,
  constants,
  fstatSync,
  fsyncSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeSync,
} from "node:fs";
import { usage } from "../failure.ts";

const MOST_BYTES = 64 * 1024 * 1024;
const OTHERS = 0o077;

/** Gives an open file, or null where there is none. */
function open(path: string, flags: number): number | null {
  try {
    return openSync(path, flags | constants.O_NOFOLLOW | constants.O_NONBLOCK, 0o600);
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : undefined;
    if (code === "ENOENT" && (flags & constants.O_CREAT) === 0) return null;
    if (code === "ELOOP" || code === "EMLINK") {
      throw usage(`${path} is a symbolic link. Name the file itself: a secret is not written or read through a link.`);
    }
    throw usage(`${path} cannot be opened (${String(code ?? error)}).`);
  }
}

function requirePrivate(file: number, path: string): void {
  const stat = fstatSync(file);
  if (!stat.isFile()) throw usage(`${path} is not a plain file.`);
  if (process.getuid && stat.uid !== process.getuid()) throw usage(`${path} belongs to another user.`);
  if (process.platform !== "win32" && (stat.mode & OTHERS) !== 0) {
    throw usage(`Others can read ${path}, and it holds secrets. Run: chmod 600 ${path}`);
  }
  if (stat.size > MOST_BYTES) throw usage(`${path} is too large.`);
}

/** Undefined where there is none. */
export function readPrivate(path: string): string | undefined {
  const file = open(path, constants.O_RDONLY);
  if (file === null) return undefined;
  try {
    requirePrivate(file, path);
    return readFileSync(file, "utf8");
  } finally {
    closeSync(file);
  }
}

/** Replaces the whole file in one step. */
export function writePrivate(path: string, text: string): void {
  readPrivate(path);
  const beside = `${path}.${randomBytes(6).toString("hex")}`;
  const file = open(beside, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL);
  try {
    if (file !== null) writeAll(file, text);
  } finally {
    if (file !== null) closeSync(file);
  }
  try {
    renameSync(beside, path);
  } catch (error) {
    rmSync(beside, { force: true });
    throw error;
  }
}

/** Adds to a file, which is made where there is none; what was added is on the disk when this returns. */
export function appendPrivate(path: string, text: string): void {
  const file = open(path, constants.O_WRONLY | constants.O_CREAT | constants.O_APPEND);
  if (file === null) return;
  try {
    requirePrivate(file, path);
    writeAll(file, text);
  } finally {
    closeSync(file);
  }
}

function writeAll(file: number, text: string): void {
  const bytes = Buffer.from(text, "utf8");
  for (let at = 0; at < bytes.length; ) at += writeSync(file, bytes, at);
  fsyncSync(file);
}
