/**
 * Receives Tollgate's alerts and verifies their signature with the package `standardwebhooks`.
 *
 *     PORT=9000 WEBHOOK_SECRET=whsec_... npx node examples/webhook-receiver.ts
 *
 * Put it behind https on port 443. An alert may come twice: remember its `webhook-id`.
 */
import { createServer, type IncomingMessage } from "node:http";
import { Webhook } from "standardwebhooks";

/** Larger than any alert. */
const MOST_BYTES = 64_000;
const webhook = new Webhook(process.env.WEBHOOK_SECRET ?? "");
const seen = new Set<string>();

const server = createServer(async (request, response) => {
  const body = await textOf(request).catch(() => undefined);
  const id = String(request.headers["webhook-id"] ?? "");
  try {
    const alert = webhook.verify(body ?? "", request.headers as Record<string, string>) as Alert;
    if (!seen.has(id)) process.stdout.write(`${alert.type} ${JSON.stringify(alert.data)}\n`);
    seen.add(id);
    response.writeHead(204).end();
  } catch {
    response.writeHead(401).end();
  }
});
server.listen(Number(process.env.PORT ?? 9000), "127.0.0.1", () => process.stdout.write("listening\n"));

interface Alert {
  readonly type: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/** The bytes as they were sent: what is parsed and written anew has another signature. */
async function textOf(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of request) {
    bytes += part.length;
    if (bytes > MOST_BYTES) throw new Error("too large");
    parts.push(part);
  }
  return Buffer.concat(parts).toString("utf8");
}
