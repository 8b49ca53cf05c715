/**
 * `npm run deploy`: builds the static assets and the Worker, checks its size, and deploys it with what it needs:
 * queues, KV and D1 (created if missing), migrations, code. `--secrets-file FILE` (lines `NAME=value`) sets secrets in
 * the same step, which a Worker's first deployment needs. `--dry-run` stops after the build and needs no network.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { gzipSync } from "node:zlib";
import { unstable_readConfig as readConfig } from "wrangler";
import { makeAssets } from "./assets.ts";
import { bundle, MOST_GZIPPED_KB } from "./bundle.ts";
import { commitOf } from "./commit.ts";
import { lengthFaults } from "./true-lengths.ts";

const root = join(import.meta.dirname, "..");
const env = { ...process.env, WRANGLER_SEND_METRICS: "false" };
const { values: flags } = parseArgs({
  options: { "dry-run": { type: "boolean", default: false }, "secrets-file": { type: "string" } },
});

checkLengths(flags["secrets-file"]);
await makeAssets();
const out = mkdtempSync(join(tmpdir(), "tollgate-bundle-"));
process.on("exit", () => rmSync(out, { recursive: true, force: true }));
const built = await build(out);
if (!flags["dry-run"]) deploy(built, flags["secrets-file"]);

function checkLengths(secretsFile: string | undefined): void {
  const { vars } = readConfig({ config: join(root, "wrangler.toml") });
  const faults = lengthFaults(vars, secretsFile ? readFileSync(resolve(secretsFile), "utf8") : "");
  if (faults.length > 0) fail(faults.join("\n"));
}

/**
 * Returns wrangler's command that uploads the bundle as it is. A bundle that is too large, or that wrangler would not
 * take, stops the deployment before anything has changed.
 */
async function build(folder: string): Promise<readonly string[]> {
  const { main } = readConfig({ config: join(root, "wrangler.toml") });
  if (main === undefined) fail("wrangler.toml names no main module.");
  const code = await bundle(main, {}, true);
  const bytes = gzipSync(code).length;
  const size = `${(bytes / 1024).toFixed(1)} KB gzipped of at most ${MOST_GZIPPED_KB} KB`;
  if (bytes > MOST_GZIPPED_KB * 1024) fail(`The bundle is too large: ${size}.`);
  const file = join(folder, "index.js");
  writeFileSync(file, code);
  const upload = ["deploy", file, "--no-bundle", "--minify=false", "--config", join(root, "wrangler.toml")];
  wrangler([...upload, "--dry-run", "--outdir", join(folder, "uploaded")], "quiet");
  const uploaded = readFileSync(join(folder, "uploaded/index.js"), "utf8");
  if (!uploaded.startsWith(code.trimEnd())) fail("wrangler would upload something else than the bundle.");
  process.stdout.write(`bundle: ${size}\n`);
  return upload;
}

function deploy(upload: readonly string[], secretsFile: string | undefined): void {
  const config = readConfig({ config: join(root, "wrangler.toml") });
  const database = config.d1_databases[0]?.database_name ?? fail("wrangler.toml names no D1 database.");
  const consumers: { queue: string; dead_letter_queue?: string }[] = config.queues.consumers ?? [];
  const queues = consumers.flatMap((consumer) => [consumer.queue, consumer.dead_letter_queue ?? []].flat());
  for (const queue of queues) wrangler(["queues", "create", queue], "may exist");
  for (const { bucket_name } of config.r2_buckets) {
    if (bucket_name) wrangler(["r2", "bucket", "create", bucket_name], "may exist");
  }
  // Migrations only add, so old code runs on the new tables. They run first, unless there is no database yet.
  const exists = wrangler(["d1", "info", database], "may fail");
  const migrate = () => wrangler(["d1", "migrations", "apply", database, "--remote"], "shown");
  if (exists) migrate();
  // wrangler runs in the project's folder; the operator may be elsewhere.
  wrangler(
    [...upload, "--var", `COMMIT:${commitOf(root)}`, ...(secretsFile ? ["--secrets-file", resolve(secretsFile)] : [])],
    "shown",
  );
  if (!exists) migrate();
}

type Manner = "quiet" | "shown" | "may exist" | "may fail";

/** Runs wrangler. Returns false only if it may fail and did. */
function wrangler(args: readonly string[], manner: Manner): boolean {
  const shown = manner === "shown";
  const child = spawnSync("wrangler", [...args], {
    cwd: root,
    env,
    stdio: shown ? "inherit" : "pipe",
    encoding: "utf8",
  });
  if (child.status === 0) return true;
  if (manner === "may fail") return false;
  const said = `${child.stdout ?? ""}${child.stderr ?? ""}`;
  if (manner === "may exist" && /already (exists|taken)/i.test(said)) return true;
  return fail(`wrangler ${args.join(" ")} failed.\n${said}`);
}

function fail(message: string): never {
  process.stderr.write(`${message}\n`);
  process.exit(1);
}
