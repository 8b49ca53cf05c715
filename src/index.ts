/** The Worker: passes the platform's events to the application, and nothing else. */
import { createApp } from "./app.ts";
import { serveDirectly } from "./direct.ts";
import { log } from "./platform/log.ts";
import { openPorts } from "./platform/ports.ts";
import { consumeUsage, runScheduled } from "./platform/queue/usage.ts";
import { readSecrets } from "./platform/secrets.ts";
import { consumeWebhooks } from "./platform/webhooks/deliver.ts";

export { Account } from "./platform/account/object.ts";
export { Broker } from "./platform/broker/broker.ts";

const app = createApp();

export default {
  async fetch(request, env, context) {
    const secrets = await readSecrets(env);
    if (!secrets.ok) {
      // There is no weak default: without its secrets the Worker serves no calls, and logs which one is missing.
      log({ event: "secret_unusable", secret: secrets.fault.secret });
      const error = { message: secrets.fault.message, type: "server_error", param: null, code: "not_configured" };
      return Response.json({ error }, { status: 503, headers: { "cache-control": "no-store" } });
    }
    const ports = openPorts(env, context, secrets.secrets, { timerLingers: true });
    return serveDirectly(request, ports) ?? app.fetch(request, { ...env, ports }, context);
  },

  queue: (batch, env) => (batch.queue === "tollgate-webhooks" ? consumeWebhooks(batch, env) : consumeUsage(batch, env)),

  scheduled: (controller, env) => runScheduled(env, controller.scheduledTime),
} satisfies ExportedHandler<Env>;
