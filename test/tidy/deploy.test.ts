/** What a deployment takes: `npm run deploy` refuses it before anything is built or sent. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { unstable_readConfig as readConfig } from "wrangler";
import { lengthFaults } from "../../scripts/true-lengths.ts";

const root = join(import.meta.dirname, "../..");
const HOUR = "COMPUTE_HOUR_MS";
const DAY = "COMPUTE_DAY_MS";
const ORIGINS = "WEBHOOK_TEST_ORIGINS";

it("the settings in wrangler.toml have the true hour and day of compute", () => {
  const { vars } = readConfig({ config: join(root, "wrangler.toml") });
  expect(vars).toMatchObject({ [HOUR]: "3600000", [DAY]: "86400000" });
  expect(lengthFaults(vars)).toEqual([]);
});

it.each<[string, Record<string, unknown>, string, string[]]>([
  ["none, since the Worker's own are true", {}, "ADMIN_TOKEN=x", []],
  ["another spelling of the same", { [HOUR]: 3_600_000, [DAY]: "86400000" }, "", []],
  ["a shorter hour", { [HOUR]: "6000", [DAY]: "86400000" }, "", [HOUR]],
  ["a longer day", { [HOUR]: "3600000", [DAY]: "86400001" }, "", [DAY]],
  ["no number at all", { [HOUR]: "", [DAY]: "a day" }, "", [HOUR, DAY]],
  ["one among the secrets, as lines", {}, `ADMIN_TOKEN=x\n export ${HOUR} = 6000\n`, [HOUR]],
  ["one among the secrets, as JSON", {}, `{"ADMIN_TOKEN":"x",\n "${DAY}": "1"}`, [DAY]],
  ["one among the secrets, as JSON on a line", {}, `{"ADMIN_TOKEN":"x","${DAY}":"1"}`, [DAY]],
  ["an origin for webhooks of tests", { [ORIGINS]: "http://127.0.0.1:1" }, "", [ORIGINS]],
  ["no such origin", { [ORIGINS]: "" }, "", []],
  ["such an origin among the secrets", {}, `${ORIGINS}=http://127.0.0.1:1`, [ORIGINS]],
  ["a secret whose value names one", {}, `ADMIN_TOKEN=${HOUR}=6000`, []],
])("of compute's hour and day, %s: %j %j", (_, vars, secrets, named) => {
  const faults = lengthFaults(vars, secrets);
  expect(faults).toHaveLength(named.length);
  for (const [index, name] of named.entries()) expect(faults[index]).toContain(name);
});

it("`npm run deploy` stops at such a secret before it builds anything", () => {
  const folder = mkdtempSync(join(tmpdir(), "tollgate-deploy-"));
  try {
    const file = join(folder, "secrets.env");
    writeFileSync(file, `${HOUR}=6000\n`);
    const args = ["scripts/deploy.ts", "--dry-run", "--secrets-file", file];
    const child = spawnSync(process.execPath, args, { cwd: root, encoding: "utf8" });
    expect({ status: child.status, stdout: child.stdout }).toEqual({ status: 1, stdout: "" });
    expect(child.stderr).toContain(`${HOUR} stands among the secrets`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
