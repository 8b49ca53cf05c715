/**
 * How alerts leave a gateway that `npm start` runs. Its Worker could reach the machine's own network, so this process
 * sends for it: it resolves the receiver's name, refuses it where any of its addresses is not public, and connects to
 * the address that it looked at. In production the platform reaches no private network, and the Worker sends itself.
 */
import { lookup } from "node:dns/promises";
import { request as plain } from "node:http";
import { request as secure } from "node:https";
import { isIP } from "node:net";
import { isTestUrl, originsIn } from "../src/core/alerts/receiver-url.ts";
import { isPublicAddress } from "../src/core/formats/public-url.ts";

const LIMIT_MS = 10_000;

/** Addresses of names, in place of the resolver's; tests give it. */
export type Names = Readonly<Record<string, readonly string[]>>;

interface Asked {
  readonly url: string;
  readonly headers: Record<string, string>;
  readonly body: string;
}
interface Outcome {
  readonly status: number | null;
  readonly problem: string | null;
}

/** `origins`: those that tests opened; their addresses may be private. */
export function webhookOut(origins: string, names: Names): (asked: Asked) => Promise<Outcome> {
  const opened = originsIn(origins);
  return async (asked) => {
    const late = AbortSignal.timeout(LIMIT_MS);
    const cut = new Promise<Outcome>((resolve) => {
      late.addEventListener("abort", () => resolve({ status: null, problem: "timeout" }));
    });
    return Promise.race([send(asked, opened, names, late), cut]);
  };
}

async function send(asked: Asked, opened: readonly string[], names: Names, late: AbortSignal): Promise<Outcome> {
  const url = new URL(asked.url);
  const address = await addressOf(url.hostname, isTestUrl(asked.url, opened), names).catch(() => undefined);
  if (address === undefined) return { status: null, problem: "unreachable" };
  if (address === "private") return { status: null, problem: "private_address" };
  const { promise, resolve } = Promise.withResolvers<Outcome>();
  const request = (url.protocol === "https:" ? secure : plain)(url, {
    method: "POST",
    headers: { ...asked.headers, "content-length": String(Buffer.byteLength(asked.body)) },
    agent: false,
    signal: late,
    // The address that was looked at, so that a name cannot have another one by now.
    lookup: (_, { all }, done) => {
      const family = isIP(address);
      if (all) done(null, [{ address, family }]);
      else done(null, address, family);
    },
  });
  request.on("response", (response) => {
    resolve({ status: response.statusCode ?? null, problem: null });
    response.destroy();
  });
  request.on("error", () => resolve({ status: null, problem: late.aborted ? "timeout" : "unreachable" }));
  request.end(asked.body);
  return promise;
}

/** The first of the name's addresses, if all are public. */
async function addressOf(host: string, anyAddress: boolean, names: Names): Promise<string | undefined> {
  const found = names[host] ?? (await lookup(host, { all: true })).map(({ address }) => address);
  return anyAddress || found.every(isPublicAddress) ? found[0] : "private";
}
