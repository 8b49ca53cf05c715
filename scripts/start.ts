/**
 * `npm start`: the gateway and the sandbox, each in its own workerd process, over real HTTP. `npm start -- --demo-data`
 * makes two weeks of made-up usage first.
 *
 * Environment: PORT (8787), SANDBOX_PORT (8788), STATE_DIR (.wrangler/state), ADMIN_TOKEN, METRICS_TOKEN,
 * INSPECTOR_PORT, and any variable of the two wrangler.toml files. All processes stay in this process group and end
 * with this one.
 */
import { join } from "node:path";
import { builtOnce } from "./built.ts";
import { commitOf } from "./commit.ts";
import { prepareDemo } from "./demo.ts";
import { startReaper } from "./process-reaper.ts";
import { expectFreePorts, readSettings, SettingError, type Settings } from "./settings.ts";
import { watchForShutdown } from "./shutdown.ts";
import { openState, randomKey, randomToken } from "./state.ts";
import { webhookOut } from "./webhook-out.ts";
import { welcome } from "./welcome.ts";
import type { WorkerSpec } from "./workers.ts";

// No telemetry and no prompts.
Object.assign(process.env, {
  WRANGLER_LOG: "error",
  WRANGLER_SEND_METRICS: "false",
  CLOUDFLARE_CF_FETCH_ENABLED: "false",
});

try {
  await start(readSettings(process.env, process.argv.slice(2)));
} catch (error) {
  const known = error instanceof SettingError;
  process.stderr.write(`${known ? error.message : error instanceof Error ? error.stack : String(error)}\n`);
  process.exit(1);
}

async function start(settings: Settings): Promise<void> {
  await expectFreePorts(settings);
  const state = openState(settings.stateDir);
  startReaper(state.runDir);
  const running = watchForShutdown();
  const adminToken = settings.adminToken ?? state.secret("admin-token", randomToken);
  const root = join(import.meta.dirname, "..");
  process.env.COMMIT ??= commitOf(root);
  // Imported late, so that an invalid setting is reported at once.
  const { startWorker } = await import("./workers.ts");
  await builtOnce("assets", async () => {
    const { makeAssets } = await import("./assets.ts");
    await makeAssets();
    return "made";
  });
  const spec: WorkerSpec = {
    label: "gateway",
    config: join(root, "wrangler.toml"),
    port: settings.port,
    inspectorPort: settings.inspectorPort,
    secrets: {
      ADMIN_TOKEN: adminToken,
      MASTER_KEY: state.secret("master-key", randomKey),
      KEY_PEPPER: state.secret("key-pepper", randomKey),
      ...(settings.metricsToken && { METRICS_TOKEN: settings.metricsToken }),
    },
    services: { WEBHOOK_OUT: webhookOut(process.env.WEBHOOK_TEST_ORIGINS ?? "", settings.webhookNames) },
  };
  const gatewayUrl = `http://localhost:${settings.port}`;
  const sandboxUrl = `http://localhost:${settings.sandboxPort}`;
  const sandbox = startWorker(
    { label: "sandbox", config: join(root, "sandbox/wrangler.toml"), port: settings.sandboxPort, secrets: {} },
    state,
    running,
  );
  if (settings.demoData) {
    await sandbox;
    const { makePast } = await import("./demo-past.ts");
    await makePast({ spec, state, running, gatewayUrl, sandboxUrl, adminToken });
  }
  const gateway = startWorker(spec, state, running);
  await Promise.all([gateway, sandbox]);
  await Promise.all([expectAnswer(gatewayUrl), expectAnswer(sandboxUrl)]);
  const demo = await prepareDemo(gatewayUrl, adminToken, sandboxUrl, state);
  process.stdout.write(
    welcome({ gateway: gatewayUrl, sandbox: sandboxUrl, ...demo, adminToken, stateDir: settings.stateDir }),
  );
}

/** Any answer shows that the Worker loads. */
async function expectAnswer(url: string): Promise<void> {
  const response = await fetch(`${url}/`);
  await response.arrayBuffer();
  if (response.status >= 500) throw new Error(`${url} answers ${response.status}`);
}
