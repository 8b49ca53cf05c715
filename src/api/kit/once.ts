/**
 * `Idempotency-Key` on POSTs of this API. A call is claimed in the books before its work begins, and its answer is kept
 * for 24 h without its secret, which is stored nowhere: a repeat shows the same record with the secret as null.
 *
 * Between the work and the record the Worker may end. So what a call makes is named by its row: the next attempt does
 * the work again under the same names, which makes nothing twice. A refused call frees its key, like one that made
 * nothing. Each operator and each virtual key has keys of its own.
 */
import { LONGEST_IDEMPOTENCY_KEY } from "../../core/account/idempotency.ts";
import { toHex } from "../../core/formats/bytes.ts";
import { toHttp } from "../../core/http-refusal.ts";
import {
  type Claim,
  type Claimed,
  callAnswered,
  claimCall,
  forgetCall,
  releaseCall,
} from "../../platform/d1/idempotent-calls.ts";
import type { AdminContext } from "./context.ts";
import { namedBy } from "./making.ts";
import { newId } from "./new-id.ts";
import { invalid, Problem } from "./problem.ts";
import type { CarriedOut, ChangeCall, Status } from "./route.ts";

/** How long a repeat waits for the call that runs, ms. */
const LONGEST_WAIT_MS = 20_000;
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 2_000;
/** A longer answer is made anew for a repeat, in characters. */
const LONGEST_REPLY = 2_000;

/** `caller`: whose idempotency key it is. `record`: carries the call out and records the change. */
export async function carryOutOnce(
  context: AdminContext,
  caller: string,
  call: ChangeCall,
  record: (call: ChangeCall) => Promise<CarriedOut>,
): Promise<CarriedOut> {
  const { idempotencyKey: key } = call;
  if (key === null || call.route.method !== "post") return record(call);
  if (key === "" || key.length > LONGEST_IDEMPOTENCY_KEY) {
    throw invalid("idempotency-key", `The Idempotency-Key must have 1 to ${LONGEST_IDEMPOTENCY_KEY} characters.`);
  }
  const hmac = async (text: string) => toHex(await context.secrets.hmac(text));
  const ref = await hmac(`idempotent-call ${caller}\n${key}`);
  const body = await hmac(`idempotent-body ${call.target}\n${call.identity}`);
  const claimed = await claimInTime(context, ref, body, call.signal);
  switch (claimed.kind) {
    case "mine":
      return attempt(context, claimed.claim, call, record);
    case "answered":
      return claimed.reply === null
        ? withoutSecret(call, await call.carryOut(namedBy(claimed.made)))
        : { status: claimed.status as Status, body: JSON.parse(claimed.reply) };
    default:
      throw unfit(claimed.kind);
  }
}

/** Waits while another attempt runs. */
async function claimInTime(
  { books, now }: AdminContext,
  ref: string,
  body: string,
  client: AbortSignal,
): Promise<Claimed> {
  const sinceMs = now();
  const [made, attempt] = [newId(""), newId("")];
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 1.5, LONGEST_PAUSE_MS)) {
    const claimed = await claimCall(books, { ref, body, made, attempt, nowMs: now() });
    if (claimed.kind !== "running" || client.aborted || now() - sinceMs >= LONGEST_WAIT_MS) return claimed;
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
}

async function attempt(
  { books, log }: AdminContext,
  claim: Claim,
  call: ChangeCall,
  record: (call: ChangeCall) => Promise<CarriedOut>,
): Promise<CarriedOut> {
  // A row that cannot be written now is claimed again a minute later: that finds what was done.
  const unwritten = (error: unknown) => log({ event: "idempotent_call_not_written", error: String(error) });
  let reply: CarriedOut;
  try {
    reply = await record({ ...call, carryOut: () => call.carryOut(namedBy(claim.made)) });
  } catch (error) {
    const nothingDone = error instanceof Problem && error.status < 500 && claim.first;
    await (nothingDone ? forgetCall : releaseCall)(books, claim).catch(unwritten);
    throw error;
  }
  const kept = withoutSecret(call, reply);
  const text = kept instanceof Response ? null : JSON.stringify(kept.body);
  const short = text !== null && text.length <= LONGEST_REPLY ? text : null;
  await callAnswered(books, claim, reply.status, short).catch(unwritten);
  return reply;
}

function withoutSecret({ route: { secret } }: ChangeCall, reply: CarriedOut): CarriedOut {
  if (secret === undefined || reply instanceof Response) return reply;
  return { ...reply, body: { ...(reply.body as object), [secret]: null } };
}

function unfit(why: "other_body" | "running"): Problem {
  const { message } = toHttp({ kind: "idempotency", why });
  return new Problem(409, "idempotency_error", message);
}
