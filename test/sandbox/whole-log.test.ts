import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, test } from "vitest";
import { computeOf, type SandboxEnv, serviceOf } from "../../sandbox/env.ts";
import { call, json } from "../support/worker/sandbox-client.ts";

const sandbox = env as unknown as SandboxEnv;
const ROWS = 2_500;

/** As many rows as more than one call to the object may give back: 40 MB. */
const FILL_CALLS = `WITH RECURSIVE ids(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM ids WHERE id < ${ROWS})
  INSERT INTO calls (at_ms, method, path, model, region, account, request_id, service_request_id, body_sha256, headers, executed)
  SELECT 0, 'GET', hex(zeroblob(8000)), NULL, NULL, NULL, NULL, id, '', '[]', id % 2 FROM ids`;
const FILL_COMPUTE = `WITH RECURSIVE ids(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM ids WHERE id < ${ROWS})
  INSERT INTO calls (at_ms, real_ms, kind, method, path, faults)
  SELECT 0, 0, 'control', 'GET', hex(zeroblob(8000)), '[]' FROM ids`;

test("a log is given whole and in order, however long it is", async () => {
  await runInDurableObject(serviceOf(sandbox), (_, state) => void state.storage.sql.exec(FILL_CALLS));
  const ids = async (path: string): Promise<number[]> =>
    (await json(call(`/_sandbox${path}`))).data.map(({ id }: { id: number }) => id);
  const all = Array.from({ length: ROWS }, (_, at) => at + 1);
  expect(await ids("/calls")).toEqual(all);
  expect(await ids("/executions")).toEqual(all.filter((id) => id % 2 === 1));
  expect(await ids("/calls?after=400")).toEqual(all.slice(400));
  await runInDurableObject(computeOf(sandbox), (_, state) => void state.storage.sql.exec(FILL_COMPUTE));
  expect(await ids("/compute/calls")).toEqual(all);
});
