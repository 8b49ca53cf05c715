/** What every call of the compute table must do, asked of every row of it through the real process. */
import { gzipSync } from "node:zlib";
import { beforeAll, describe, expect, test } from "vitest";
import { COMPUTE_ROWS } from "../../../src/core/endpoints/compute/compute-table.ts";
import { Renter } from "../../support/compute/renter.ts";
import { IN_FULL } from "../../support/in-full.ts";
import { world } from "../../support/world.ts";

const process = world();
const { operator } = process;
/** An id that nobody has. */
const NONE = 999_999;
/** Bodies that no row reads. */
const UNREAD = [
  "[]",
  "null",
  "{",
  gzipSync("[]"),
  JSON.stringify({ name: "x".repeat(257 * 1024) }),
  gzipSync("x".repeat(10_000_000)),
];

describe.concurrent("every row of the compute table", () => {
  const rows = COMPUTE_ROWS.map((row) => ({ ...row, at: row.path.replaceAll(/\{\w+\*?\}/g, String(NONE)) }));
  let renter: Renter;
  beforeAll(async () => {
    renter = await Renter.make(process, 1);
  });
  /** Few calls a key: 60 a minute are allowed. */
  const send = async (method: string, path: string, init: RequestInit = {}) => {
    const { key } = await operator.key(renter.tenant.account, { scopes: ["compute"] });
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json", ...init.headers };
    const response = await fetch(`${operator.url}${path}`, { ...init, method, headers });
    const text = await response.text();
    return { status: response.status, body: (text ? JSON.parse(text) : null) as unknown };
  };
  const error = { error: expect.stringMatching(/\.$/) };

  /** In short rows share a list: each of them tries every third of it, beginning with another. */
  const shared = <One>(all: readonly One[], row: (typeof rows)[number]): readonly One[] =>
    all.filter((_, at) => IN_FULL || at % 3 === rows.indexOf(row) % 3);

  test.each(rows)("$method $path: refusals have the contract's form", async (row) => {
    const { method, at, schema } = row;
    const keyless = await fetch(`${operator.url}${at}`, { method });
    expect([keyless.status, await keyless.json()]).toEqual([401, error]);
    for (const path of [`${at}/`, `/v1${at}`, `${at}/nothing/at/all`]) {
      expect([path, await send(method, path)]).toEqual([path, { status: 404, body: error }]);
    }
    expect((await fetch(`${operator.url}${at}`, { method: "OPTIONS" })).status).toBe(204);
    if (!schema) return;
    for (const body of shared(UNREAD, row)) {
      const gzipped = typeof body === "string" ? {} : { "content-encoding": "gzip" };
      const answer = await send(method, at, { body, headers: gzipped });
      expect(answer).toEqual({ status: expect.toSatisfy((status) => status === 400 || status === 413), body: error });
    }
    expect(await send(method, at, { body: "{}", headers: { "content-type": "text/plain" } })).toEqual({
      status: 400,
      body: error,
    });
  });

  test.each(rows.filter(({ path }) => path.includes("{id}")))(
    "$method $path: no such id, whatever it looks like",
    async (row) => {
      if (row.schema) return;
      const answers = [];
      const ids = ["0", "-1", "01", "1e3", "1.0", "9".repeat(15), "9".repeat(300), "%31", "x"];
      for (const id of shared(ids, row)) {
        answers.push(await send(row.method, row.path.replace("{id}", id)));
      }
      for (const answer of answers) expect(answer).toEqual({ status: 404, body: answers[0]?.body });
      expect(answers[0]?.body).toEqual(error);
    },
  );
});
