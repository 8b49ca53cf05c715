/**
 * A Worker's wrangler.toml as miniflare takes it. Wrangler reads it, which costs a second and a half of a core just to
 * load, so its answer is kept until that file, wrangler or this file changes.
 */
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import type { Unstable_Config, Unstable_MiniflareWorkerOptions } from "wrangler";

/** Wrangler's own type, on which `Omit` works only by its known names. */
type MiniflareOptions = Unstable_MiniflareWorkerOptions["workerOptions"];

/** Plain data: it is kept as JSON. */
export interface WorkerConfig {
  readonly name: string | undefined;
  readonly main: string;
  readonly define: Record<string, string>;
  readonly vars: Readonly<Record<string, string>>;
  readonly crons: readonly string[];
  readonly databases: readonly { readonly binding: string; readonly migrations: string }[];
  readonly assets: (Unstable_Config["assets"] & { readonly directory: string; readonly binding: string }) | undefined;
  /** Without variables and assets. */
  readonly options: MiniflareOptions;
}

const KEPT = join(import.meta.dirname, "../node_modules/.cache/tollgate");

const textOf = (file: string): string => readFileSync(file, "utf8");

export async function readWorkerConfig(file: string): Promise<WorkerConfig> {
  const { version } = createRequire(import.meta.url)("wrangler/package.json") as { version: string };
  const hash = createHash("sha256").update(JSON.stringify([file, version, textOf(file), textOf(import.meta.filename)]));
  const kept = join(KEPT, `${hash.digest("hex").slice(0, 32)}.json`);
  try {
    return JSON.parse(readFileSync(kept, "utf8")) as WorkerConfig;
  } catch {
    const config = await readByWrangler(file);
    keep(kept, JSON.stringify(config));
    return config;
  }
}

function keep(file: string, text: string): void {
  try {
    mkdirSync(KEPT, { recursive: true });
    writeFileSync(`${file}.${process.pid}`, text);
    renameSync(`${file}.${process.pid}`, file);
  } catch {
    // A folder that cannot be written: the next start reads by wrangler again.
  }
}

async function readByWrangler(file: string): Promise<WorkerConfig> {
  const { unstable_getMiniflareWorkerOptions: miniflareOptions, unstable_readConfig: read } = await import("wrangler");
  const config = read({ config: file });
  const { workerOptions, define, main } = miniflareOptions(config);
  if (!main) throw new Error(`${file} names no main module`);
  // The variables are the file's: what wrangler adds from the environment may be secret, and is the caller's to give.
  const { bindings: _, assets: __, modulesRules: ___, rootPath: ____, ...options } = workerOptions;
  const { directory, binding } = config.assets ?? {};
  const here = (path: string) => resolve(dirname(file), path);
  return {
    name: config.name,
    main,
    define,
    vars: config.vars as Record<string, string>,
    crons: config.triggers.crons ?? [],
    databases: config.d1_databases.map((one: { binding: string; migrations_dir?: string }) => ({
      binding: one.binding,
      migrations: here(one.migrations_dir ?? "migrations"),
    })),
    assets: directory && binding ? { ...config.assets, directory: here(directory), binding } : undefined,
    options,
  };
}
