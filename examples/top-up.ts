/**
 * A payment provider's webhook becomes a credit: this receiver verifies that the provider sent it, and books the
 * payment under its id. A payment that comes again, late or twice at once, is booked once.
 *
 *     PORT=9001 PAYMENT_SECRET=whsec_... TOLLGATE_URL=https://gateway.example.com TOLLGATE_TOKEN=tg-op-... \\
 *       npx node examples/top-up.ts
 *
 * The provider here signs as Standard Webhooks say and sends `{type: "payment.succeeded", data: {id, account,
 * amount_usd}}`, where `account` is what you gave it as the payment's reference. The token is of an operator with the
 * role finance.
 */
import { createServer } from "node:http";
import { Webhook } from "standardwebhooks";

const { PORT = "9001", PAYMENT_SECRET = "", TOLLGATE_URL = "", TOLLGATE_TOKEN = "" } = process.env;
const provider = new Webhook(PAYMENT_SECRET);

const server = createServer(async (request, response) => {
  let body = "";
  for await (const part of request) body += part;
  let payment: Payment;
  try {
    payment = provider.verify(body, request.headers as Record<string, string>) as Payment;
  } catch {
    response.writeHead(401).end();
    return;
  }
  // What was not booked is sent again by the provider.
  const booked = payment.type !== "payment.succeeded" || (await book(payment.data).catch(() => false));
  response.writeHead(booked ? 204 : 503).end();
});
server.listen(Number(PORT), "127.0.0.1", () => process.stdout.write("listening\n"));

interface Payment {
  readonly type: string;
  readonly data: { readonly id: string; readonly account: string; readonly amount_usd: string };
}

/** True once the payment stands in the ledger: 201 now, 200 if it did before. */
async function book({ id, account, amount_usd }: Payment["data"]): Promise<boolean> {
  const answer = await fetch(`${TOLLGATE_URL}/admin/accounts/${encodeURIComponent(account)}/credits`, {
    method: "POST",
    headers: { authorization: `Bearer ${TOLLGATE_TOKEN}`, "content-type": "application/json" },
    body: JSON.stringify({ kind: "top_up", amount_usd, reference: `payment ${id}` }),
  });
  if (!answer.ok) process.stderr.write(`payment ${id} was not booked: ${answer.status} ${await answer.text()}\n`);
  return answer.ok;
}
