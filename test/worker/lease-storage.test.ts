/** Leases beside storage: a key that is busy costs its account no day of a filesystem. */
import { runInDurableObject } from "cloudflare:test";
import { expect, it } from "vitest";
import { asId, type CallId, type KeyDigest } from "../../src/core/ids.ts";
import type { Renter } from "../support/worker/fleet.ts";
import { done } from "../support/worker/operator.ts";
import { audit, fleet, HOUR_MS, NANO, region, renting, withFleet } from "../support/worker/simulated-rentals.ts";

/** As short as may be: lists are read all the time. */
const DAY_MS = HOUR_MS / 2;
withFleet(DAY_MS);

/** A busy key: there is always a lease, and each is returned after a second. Gives the largest, in nano-USD. */
async function busy(renter: Renter, forMs: number): Promise<number> {
  const stub = fleet.accountStub(renter);
  const keyDigest = await runInDurableObject(stub, (_, { storage }) => {
    return asId<KeyDigest>(storage.sql.exec<{ digest: string }>("SELECT digest FROM digests").one().digest);
  });
  const wanted = { requests: 100, tokens: 100, nanoUsd: NANO };
  const giveBack = (id: CallId) => stub.report({ calls: [], over: [{ id, admitted: 0 }], asks: [] });
  const out: CallId[] = [];
  let most = 0;
  for (const endMs = fleet.nowMs + forMs; fleet.nowMs < endMs; await fleet.run(500)) {
    const id = asId<CallId>(`lease-${fleet.nowMs}`);
    const { leases } = await stub.report({ calls: [], over: [], asks: [{ id, keyDigest, wanted }] });
    most = Math.max(most, leases[0]?.slice.nanoUsd ?? 0);
    out.push(id);
    if (out.length > 2) await giveBack(out.shift() as CallId);
  }
  for (const id of out) await giveBack(id);
  return most;
}

it("a filesystem with money for two days is suspended after two, though its key is busy at the turn of the first", async () => {
  const prices = { storage_gb_days: { cost_usd: 0.01, price_usd: 0.02 } };
  await done("PUT", "/models/storage%2Ffilesystem", { kind: "storage", prices });
  const renter = await renting(2);
  const made = await fleet.call(renter, "POST", "/shared-filesystems", { name: "d", region_id: region(), size_gb: 50 });
  expect(made.status).toBe(202);
  const status = async () => (await fleet.call(renter, "GET", "/shared-filesystems")).body[0].status;
  await fleet.run(DAY_MS - 20_000);
  expect(await busy(renter, 25_000)).toBeGreaterThan(NANO * 0.1);
  expect(await status()).toBe("available");
  await fleet.run(DAY_MS - 10_000);
  expect(await status()).toBe("available");
  await fleet.run(60_000);
  expect(await status()).toBe("suspended");
  expect(await audit(renter)).toMatchObject({ ok: true, problems: [], openHolds: 0, balanceNanoUsd: 0 });
});
