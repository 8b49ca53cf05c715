#!/usr/bin/env node
/**
 * `npx --no-install tollgate`: runs the command line, which is built into one file at its first use and after a change of
 * its sources. Any Node from 20 on runs this.
 */
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));

/** The built file, made anew where it is older than one of its sources. */
async function built() {
  const folder = join(root, "dist/cli");
  const file = join(folder, "tollgate.mjs");
  if (isFresh(file)) return file;
  const { build } = await import("esbuild");
  const { outputFiles, metafile } = await build({
    entryPoints: [join(root, "cli/run.ts")],
    absWorkingDir: root,
    bundle: true,
    write: false,
    metafile: true,
    format: "esm",
    platform: "node",
    target: "node20",
    legalComments: "none",
    // Packages in the old form of modules ask for Node's own by it.
    banner: { js: 'import { createRequire } from "node:module"; const require = createRequire(import.meta.url);' },
    logLevel: "error",
  });
  const sources = Object.keys(metafile.inputs);
  try {
    mkdirSync(folder, { recursive: true });
    return place(folder, outputFiles[0].contents, sources);
  } catch (error) {
    if (!["EACCES", "EROFS", "EPERM"].includes(error.code)) throw error;
    // A repository that is not ours to write to: build each time.
    return place(mkdtempSync(join(tmpdir(), "tollgate-cli-")), outputFiles[0].contents, sources);
  }
}

/** Renamed into place, so that two that build at once see whole files. */
function place(folder, contents, sources) {
  const file = join(folder, "tollgate.mjs");
  writeFileSync(`${file}.${process.pid}`, contents);
  writeFileSync(`${file}.sources.${process.pid}`, JSON.stringify(sources));
  renameSync(`${file}.sources.${process.pid}`, `${file}.sources`);
  renameSync(`${file}.${process.pid}`, file);
  return file;
}

function isFresh(file) {
  try {
    const madeAt = statSync(file).mtimeMs;
    const sources = JSON.parse(readFileSync(`${file}.sources`, "utf8"));
    return sources.every((source) => statSync(join(root, source)).mtimeMs <= madeAt);
  } catch {
    return false;
  }
}

try {
  const file = await built();
  await import(pathToFileURL(file).href);
  if (!file.startsWith(root)) rmSync(dirname(file), { recursive: true, force: true });
} catch (error) {
  if (error.code !== "ERR_MODULE_NOT_FOUND") throw error;
  process.stderr.write(`tollgate: its packages are not installed (${error.message}). Run npm ci in ${root}.\n`);
  process.exitCode = 1;
}
