/**
 * The subject: one workerd with two Workers on sockets of their own, the bare one and the gateway as `wrangler.toml`
 * describes it, started by miniflare as `npm start` does. KV, D1 and queue are miniflare's simulators inside the same
 * process, so what they cost is in the gateway's figures.
 */
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { convertV4MiniflareOptions, Log, LogLevel, Miniflare } from "miniflare";
import { unstable_getMiniflareWorkerOptions as miniflareOptions, unstable_readConfig as readConfig } from "wrangler";
import { bundle } from "../scripts/bundle.ts";
import { migrate } from "../scripts/migrations.ts";
import { startReaper } from "../scripts/process-reaper.ts";
import { randomKey, randomToken } from "../scripts/state.ts";
import { delayedEntry } from "./delay.ts";
import type { Target } from "./load.ts";
import { type Cores, pin } from "./machine.ts";
import type { Portkey } from "./portkey.ts";
import { remove, type Storage } from "./storage.ts";
import { makeTenants, type Tenants } from "./tenant.ts";

/** `beside`: the gateway of another checkout, or with other settings, in a workerd of its own. */
export type Side = "bare" | "gateway" | "portkey" | "beside";

export interface Subject {
  /** Of workerd. */
  readonly pid: number;
  /** What can be called, each with its process: `portkey` only where it is installed. */
  readonly targets: ReadonlyMap<Side, { readonly pid: number; readonly target: Target }>;
  /** Of each isolate of the gateway. */
  readonly urls: readonly string[];
  readonly tenants: Tenants;
  readonly adminToken: string;
  stop(): Promise<void>;
}

/** Made once, started often. */
export interface Bundles {
  /** The folder whose wrangler.toml and migrations belong to the gateway. */
  readonly checkout: string;
  readonly gateway: string;
  readonly bare: string;
  readonly gatewayGzippedKb: number;
}

const OF_THE_FIRST = {
  ACCOUNTS: { className: "Account", scriptName: "gateway" },
  BROKERS: { className: "Broker", scriptName: "gateway" },
};

/** Of each subject: the gateway and the bare one. */
export const WORKERS = 2;

const root = join(import.meta.dirname, "..");
const config = (checkout: string) => readConfig({ config: join(checkout, "wrangler.toml") });

/** `checkout`: whose gateway; `delayMs`: of each call to an object, there and back together. */
export async function makeBundles(checkout = root, delayMs = 0): Promise<Bundles> {
  const { define, main } = miniflareOptions(config(checkout));
  if (!main) throw new Error("wrangler.toml names no main module");
  const entry = delayMs > 0 ? delayedEntry(main, delayMs) : { path: main, remove: () => undefined };
  const gateway = await bundle(entry.path, define, true).finally(entry.remove);
  const bare = await bundle(join(import.meta.dirname, "bare.ts"), {});
  return { checkout, gateway, bare, gatewayGzippedKb: gzipSync(gateway).length / 1024 };
}

/** Where the subject runs. */
export interface Place {
  readonly cores: Cores | null;
  readonly storage: Storage;
  /** Whether hot keys are admitted out of leases. */
  readonly leases: boolean;
  /** Of the gateway: Workers that share the objects of the first. One, unless told otherwise. */
  readonly isolates?: number;
}

/** `portkey`: runs by itself, and is called like the others. `as`: which side the gateway is. */
export async function startSubject(
  bundles: Bundles,
  upstreamPort: number,
  place: Place,
  portkey: Portkey | null = null,
  as: "gateway" | "beside" = "gateway",
): Promise<Subject> {
  const gatewayConfig = config(bundles.checkout);
  const { workerOptions } = miniflareOptions(gatewayConfig);
  const { modulesRules: _, rootPath: __, assets: ___, bindings, ...bound } = workerOptions;
  const dir = place.storage.make();
  const runDir = join(dir, "run");
  mkdirSync(runDir);
  startReaper(runDir);
  const pidFile = join(runDir, "workerd.pid");
  const adminToken = randomToken();
  const upstreamHost = `127.0.0.1:${upstreamPort}`;
  process.env.MINIFLARE_WORKERD_PATH = join(root, "scripts/workerd.sh");
  const names = Array.from({ length: place.isolates ?? 1 }, (_, at) => (at === 0 ? "gateway" : `gateway-${at + 1}`));
  const socket = { host: "127.0.0.1", port: 0 };
  const secrets = { ADMIN_TOKEN: adminToken, MASTER_KEY: randomKey(), KEY_PEPPER: randomKey() };
  const miniflare = new Miniflare(
    convertV4MiniflareOptions({
      workers: [
        ...names.map((name, at) => ({
          ...bound,
          ...(at > 0 && { durableObjects: OF_THE_FIRST, queueConsumers: {} }),
          name,
          bindings: { ...(bindings as Record<string, string>), LEASES: place.leases ? "on" : "off", ...secrets },
          modules: [{ type: "ESModule" as const, path: "index.js", contents: bundles.gateway }],
          unsafeDirectSockets: [socket],
        })),
        {
          name: "bare",
          compatibilityDate: gatewayConfig.compatibility_date,
          compatibilityFlags: gatewayConfig.compatibility_flags,
          bindings: { UPSTREAM_HOST: upstreamHost },
          modules: [{ type: "ESModule", path: "index.js", contents: bundles.bare }],
          unsafeDirectSockets: [socket],
        },
      ],
      host: "127.0.0.1",
      port: 0,
      resourcePersistencePath: join(dir, "state"),
      cf: false,
      telemetry: { enabled: false },
      unsafeRuntimeEnv: { WORKERD_BINARY: workerdBinary(), WORKERD_PID_FILE: pidFile },
      log: new Log(LogLevel.ERROR),
      handleStructuredLogs: () => undefined,
    }),
  );
  let stopped: Promise<void> | undefined;
  const stop = () => {
    stopped ??= miniflare.dispose().then(() => remove(dir));
    return stopped;
  };
  try {
    await miniflare.ready;
    await migrate(await miniflare.getD1Database("BOOKS", "gateway"), join(bundles.checkout, "migrations"));
    const port = async (worker: string) => Number((await miniflare.unsafeGetDirectURL(worker)).port);
    const urls = await Promise.all(names.map(async (name) => `http://127.0.0.1:${await port(name)}`));
    const ports = { gateway: await port("gateway"), bare: await port("bare") };
    const pid = Number(readFileSync(pidFile, "utf8"));
    if (place.cores) pin(pid, place.cores.subject);
    const tenants = await makeTenants(`http://127.0.0.1:${ports.gateway}`, adminToken, `http://${upstreamHost}`);
    const { key } = tenants;
    const targets = new Map<Side, { pid: number; target: Target }>([
      ["bare", { pid, target: { port: ports.bare, key } }],
      [as, { pid, target: { port: ports.gateway, key } }],
    ]);
    if (portkey) targets.set("portkey", portkey);
    return { pid, adminToken, tenants, targets, urls, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** The runtime's own version, e.g. `1.20261102.0`. */
export function workerdVersion(): string {
  const load = createRequire(createRequire(import.meta.url).resolve("miniflare"));
  return (load("workerd/package.json") as { version: string }).version;
}

function workerdBinary(): string {
  return createRequire(createRequire(import.meta.url).resolve("miniflare"))("workerd").default;
}
