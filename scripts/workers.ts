/**
 * Runs a Worker of this repository in its own workerd process, as its wrangler.toml describes it, so bindings are
 * listed only there. The Worker's port is workerd's own socket; there is no proxy before it.
 *
 * A workerd that dies is started again on the same storage and port, as in production.
 */
import { readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { convertV4MiniflareOptions, Log, LogLevel, Miniflare, MiniflareCoreError, Response } from "miniflare";
import type { Plugin } from "rolldown";
import { builtOnce } from "./built.ts";
import { bundle } from "./bundle.ts";
import { openCrons } from "./crons.ts";
import { type Say, sayAs } from "./log.ts";
import { migrate } from "./migrations.ts";
import type { Running } from "./shutdown.ts";
import type { State } from "./state.ts";
import { readWorkerConfig, type WorkerConfig } from "./worker-config.ts";

export interface WorkerSpec {
  /** The Worker's name in logs and in `STATE_DIR`. */
  readonly label: "gateway" | "sandbox";
  /** Its wrangler.toml. */
  readonly config: string;
  readonly port: number;
  /** Where a debugger attaches; undefined: nowhere. */
  readonly inspectorPort?: number | undefined;
  readonly secrets: Record<string, string>;
  /** What its bundle is made with besides. */
  readonly plugins?: readonly Plugin[];
  /** Services of this process that the Worker may call, by binding: JSON in, JSON out. */
  readonly services?: Record<string, (asked: never) => Promise<object>>;
}

/** Lets tests build a gateway with stops inside: `TEST_BUILD_PLUGIN` names a module that exports a bundler plugin. */
async function pluginsOfTests(): Promise<Plugin[]> {
  const file = process.env.TEST_BUILD_PLUGIN;
  return file ? [((await import(pathToFileURL(file).href)) as { default: Plugin }).default] : [];
}

/** Bundled anew, or once for all processes of a test run (`built.ts`). */
async function scriptOf({ label, plugins = [] }: WorkerSpec, { main, define }: WorkerConfig): Promise<string> {
  const all = [...plugins, ...(await pluginsOfTests())];
  const make = () => bundle(main, define, false, all);
  return all.length > 0 ? make() : builtOnce(label, make);
}

/** Resolves when its socket listens and its database is up to date. */
export async function startWorker(spec: WorkerSpec, state: State, running: Running): Promise<void> {
  const config = await readWorkerConfig(spec.config);
  const script = await scriptOf(spec, config);
  const name = config.name ?? spec.label;
  const assets = assetsOf(config, `${name}-assets`);
  const say = sayAs(spec.label);
  const runtime = new RuntimeLog(say, () => running.end(1));
  const pidFile = join(state.runDir, `${spec.label}.pid`);
  let runCrons = async (): Promise<void> => undefined;
  process.env.MINIFLARE_WORKERD_PATH = join(import.meta.dirname, "workerd.sh");
  const miniflare = new Miniflare(
    convertV4MiniflareOptions({
      workers: [
        {
          ...config.options,
          bindings: { ...config.vars, ...overrides(Object.keys(config.vars)), ...spec.secrets },
          name,
          modules: [{ type: "ESModule", path: "index.js", contents: script }],
          unsafeDirectSockets: [{ host: "127.0.0.1", port: spec.port }],
          // The archive is optional in a deployment; here it is always there.
          ...(spec.label === "gateway" && { r2Buckets: { ARCHIVE: "archive" } }),
          serviceBindings: {
            ...(config.options.serviceBindings as Record<string, string>),
            ...assets?.binding,
            ...served(spec.services),
          },
        },
        ...(assets ? [assets.worker] : []),
      ],
      // miniflare's own front end; tenants use the direct socket.
      host: "127.0.0.1",
      port: 0,
      resourcePersistencePath: state.storage(spec.label),
      cf: false,
      telemetry: { enabled: false },
      ...(spec.inspectorPort !== undefined && { inspectorHost: "127.0.0.1", inspectorPort: spec.inspectorPort }),
      unsafeRuntimeEnv: { WORKERD_BINARY: workerdBinary(), WORKERD_PID_FILE: pidFile },
      log: runtime,
      handleStructuredLogs: ({ level, message }) => say(message, level),
      unsafeHandleRuntimeRestart: () => {
        say(`workerd runs again as process ${readPid(pidFile)}`);
        void runCrons();
      },
    }),
  );
  running.onEnd(async () => {
    runtime.stopping = true;
    await miniflare.dispose();
    // The process is gone and its id may be reused, so the reaper must not end it.
    rmSync(pidFile, { force: true });
  });
  await miniflare.ready;
  for (const { binding, migrations } of config.databases) {
    const applied = await migrate(await miniflare.getD1Database(binding), migrations);
    if (applied.length > 0) say(`migrations applied: ${applied.join(", ")}`);
  }
  runCrons = openCrons(config.crons, miniflare, say);
  await runCrons();
}

/**
 * The static assets as a Worker of their own, and its binding: before a Worker that has assets miniflare puts a router
 * of its own, on the socket too.
 */
function assetsOf({ assets }: WorkerConfig, name: string) {
  if (!assets) return undefined;
  const { directory, binding, html_handling, not_found_handling } = assets;
  const worker = {
    name,
    modules: [{ type: "ESModule" as const, path: "none.js", contents: "export default {}" }],
    assets: { directory, assetConfig: { html_handling, not_found_handling } },
  };
  return { binding: { [binding]: name }, worker };
}

function served(services: WorkerSpec["services"] = {}) {
  const answer = (serve: (asked: never) => Promise<object>) => async (request: { json(): Promise<unknown> }) =>
    new Response(JSON.stringify(await serve((await request.json()) as never)));
  return Object.fromEntries(Object.entries(services).map(([binding, serve]) => [binding, answer(serve)]));
}

/** Variables of wrangler.toml that the environment overrides. */
function overrides(names: string[]): Record<string, string> {
  const set: Record<string, string> = {};
  for (const name of names) {
    const value = process.env[name];
    if (value !== undefined) set[name] = value;
  }
  return set;
}

function workerdBinary(): string {
  return createRequire(createRequire(import.meta.url).resolve("miniflare"))("workerd").default;
}

const readPid = (file: string): string => readFileSync(file, "utf8").trim();

/** Logs the runtime's own warnings and errors; silent while it is being stopped. */
class RuntimeLog extends Log {
  stopping = false;
  readonly #say: Say;
  readonly #failed: () => void;

  /** `failed`: workerd died and could not be started again. */
  constructor(say: Say, failed: () => void) {
    super(LogLevel.WARN);
    this.#say = say;
    this.#failed = failed;
  }

  override warn(message: string): void {
    if (!this.stopping) this.#say(message, "warn");
  }

  override error(error: Error): void {
    if (this.stopping) return;
    this.#say(error.stack ?? String(error), "error");
    if (error instanceof MiniflareCoreError && error.code === "ERR_RUNTIME_FAILURE") this.#failed();
  }
}
