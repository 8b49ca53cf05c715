/**
 * Reads the settings of `npm start` from the environment. An invalid setting is a `SettingError` that names its
 * variable; nothing is started then.
 */
import { createServer } from "node:net";
import { resolve } from "node:path";

/** An invalid setting, explained for the person who set it. */
export class SettingError extends Error {}

export interface Settings {
  readonly port: number;
  readonly sandboxPort: number;
  /** Absolute. */
  readonly stateDir: string;
  /** Undefined: generated once and kept. */
  readonly adminToken: string | undefined;
  /** Where a debugger attaches to the gateway; undefined: nowhere. */
  readonly inspectorPort: number | undefined;
  /** `--demo-data`: two weeks of made-up usage are wanted. */
  readonly demoData: boolean;
  /** What `/metrics` asks for; undefined: it is not there. */
  readonly metricsToken: string | undefined;
  /** Addresses of webhooks' hosts in place of the resolver's, for tests. */
  readonly webhookNames: Readonly<Record<string, readonly string[]>>;
}

/** The Worker requires the same. */
const LEAST_TOKEN_LENGTH = 24;

export function readSettings(env: NodeJS.ProcessEnv, args: readonly string[]): Settings {
  const unknown = args.find((arg) => arg !== "--demo-data");
  if (unknown !== undefined) throw new SettingError(`${unknown} is no option. There is one: --demo-data.`);
  const port = readPort(env, "PORT", 8787);
  const sandboxPort = readPort(env, "SANDBOX_PORT", 8788);
  const inspectorPort = env.INSPECTOR_PORT ? readPort(env, "INSPECTOR_PORT", 0) : undefined;
  if (port === sandboxPort) throw new SettingError(`PORT and SANDBOX_PORT are both ${port}. Choose two ports.`);
  if (inspectorPort === port || inspectorPort === sandboxPort) {
    throw new SettingError(
      `INSPECTOR_PORT is ${inspectorPort}, which is taken by the gateway or the sandbox. Choose another.`,
    );
  }
  return {
    port,
    sandboxPort,
    stateDir: resolve(env.STATE_DIR || ".wrangler/state"),
    adminToken: readToken(env, "ADMIN_TOKEN", "Unset it to have one made."),
    inspectorPort,
    demoData: args.length > 0,
    metricsToken: readToken(env, "METRICS_TOKEN", "Unset it to have no /metrics."),
    webhookNames: JSON.parse(env.WEBHOOK_TEST_NAMES || "{}"),
  };
}

function readToken(env: NodeJS.ProcessEnv, name: string, remedy: string): string | undefined {
  const token = env[name] || undefined;
  if (token === undefined || token.length >= LEAST_TOKEN_LENGTH) return token;
  throw new SettingError(`${name} has ${token.length} characters and needs at least ${LEAST_TOKEN_LENGTH}. ${remedy}`);
}

function readPort(env: NodeJS.ProcessEnv, name: string, fallback: number): number {
  const text = env[name];
  if (!text) return fallback;
  const port = Number(text);
  if (!/^\d+$/.test(text) || port < 1 || port > 65_535) {
    throw new SettingError(`${name} is "${text}". Set it to a port number from 1 to 65535.`);
  }
  return port;
}

/** Refuses ports that are in use, before anything is started. */
export async function expectFreePorts(settings: Settings): Promise<void> {
  await expectFree("PORT", settings.port);
  await expectFree("SANDBOX_PORT", settings.sandboxPort);
  if (settings.inspectorPort !== undefined) await expectFree("INSPECTOR_PORT", settings.inspectorPort);
}

function expectFree(name: string, port: number): Promise<void> {
  const { promise, resolve: free, reject } = Promise.withResolvers<void>();
  const probe = createServer();
  probe.once("error", (error: NodeJS.ErrnoException) => {
    const why = error.code === "EADDRINUSE" ? "is taken by another process" : `cannot be used (${error.code})`;
    reject(
      new SettingError(`${name}: port ${port} ${why}. Set ${name} to another, for example ${name}=${port + 100}.`),
    );
  });
  probe.listen(port, "127.0.0.1", () => probe.close(() => free()));
  return promise;
}
