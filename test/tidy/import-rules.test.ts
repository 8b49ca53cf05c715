/**
 * The lint refuses imports against the folder graph: each case is a file that does not exist, in a folder that does.
 */
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";

const root = join(import.meta.dirname, "../..");

/** Where a file stands, and what it imports. */
const REFUSED: readonly (readonly [folder: string, from: string])[] = [
  ["src/core/pricing", "../video/jobs.ts"],
  ["src/core/formats/audio", "../../meters/meter.ts"],
  ["src/core/account", "../routing/routes.ts"],
  ["src/core/account", "../leases/slice.ts"],
  ["src/core/alerts", "../account/ledger.ts"],
  ["src/core/archive", "../routing/routes.ts"],
  ["src/core/routing", "../meters/meter.ts"],
  ["src/core/leases", "../routing/routes.ts"],
  ["src/core/meters", "../endpoints/call.ts"],
  ["src/core/video", "../endpoints/endpoint.ts"],
  ["src/core/compute", "../endpoints/endpoint.ts"],
  ["src/core/endpoints/inference", "../../../gateway/ports.ts"],
  ["src/core/formats/multipart", "node:fs"],
  ["src/gateway/flows", "../../platform/ports.ts"],
  ["src/gateway/stream", "../flows/free.ts"],
  ["src/gateway/http", "../stream/relay.ts"],
  ["src/platform/account/tables", "../../../gateway/serve.ts"],
  ["src/platform/account/tables", "../../d1/accounts.ts"],
  ["src/platform/d1", "../account/object.ts"],
  ["src/platform/upstream", "../account/store.ts"],
  ["src/platform/edge", "../upstream/client.ts"],
  ["src/platform/archive", "../account/object.ts"],
  ["src/platform/archive", "../queue/usage.ts"],
  ["src/platform/webhooks", "../archive/bucket.ts"],
  ["src/platform/webhooks", "../account/stub.ts"],
  ["src/api/kit", "../operator/auth.ts"],
  ["src/api/tenant", "../operator/accounts.ts"],
  ["sandbox/chat", "../../src/core/ids.ts"],
];
const ALLOWED: readonly (readonly [folder: string, from: string])[] = [
  ["src/core/pricing", "../formats/bytes.ts"],
  ["src/core/account", "../pricing/prices.ts"],
  ["src/core/account", "../alerts/alert.ts"],
  ["src/core/leases", "../account/limits.ts"],
  ["src/core/video", "../endpoints/list.ts"],
  ["src/core/endpoints/inference", "../../video/rates.ts"],
  ["src/gateway/flows", "../stream/relay.ts"],
  ["src/platform/account/tables", "../../../core/account/tenant.ts"],
  ["src/platform/d1", "../../core/account/tenant.ts"],
  ["src/platform/account", "../../gateway/ports.ts"],
  ["src/platform/archive", "../webhooks/raise.ts"],
  ["src/platform/archive", "../../core/archive/part.ts"],
  ["src/platform/webhooks", "../d1/deliveries.ts"],
  ["src/platform/webhooks", "../../core/alerts/alert.ts"],
];

const folder = mkdtempSync(join(tmpdir(), "import-rules-"));
/** The cases that the linter refused, as the paths of their files. */
const refused = new Set<string>();
const fileOf = (kind: string, index: number, at: string) => join(at, `${kind}-${index}.ts`);

beforeAll(() => {
  const write = (kind: string, cases: typeof REFUSED) => {
    for (const [index, [at, from]] of cases.entries()) {
      const file = join(folder, fileOf(kind, index, at));
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, `import { one } from "${from}";\n\nexport const two = one;\n`);
    }
  };
  write("refused", REFUSED);
  write("allowed", ALLOWED);
  copyFileSync(join(root, "biome.json"), join(folder, "biome.json"));
  mkdirSync(join(folder, "scripts"));
  symlinkSync(join(root, "scripts/lint"), join(folder, "scripts/lint"));
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
  const biome = join(root, "node_modules/.bin/biome");
  const args = [
    "lint",
    "--only=style/noRestrictedImports",
    "--vcs-enabled=false",
    "--reporter=json",
    "--max-diagnostics=none",
  ];
  const { stdout } = spawnSync(biome, args, { cwd: folder, encoding: "utf8", maxBuffer: 64 * 1024 * 1024 });
  for (const { location } of JSON.parse(stdout).diagnostics) refused.add(location.path?.file ?? location.path);
}, 20_000);
afterAll(() => rmSync(folder, { recursive: true }));

it.each(REFUSED.map(([at, from], index) => ({ at, from, index })))("$at may not import $from", ({ at, index }) => {
  expect([...refused]).toContain(fileOf("refused", index, at));
});

it.each(ALLOWED.map(([at, from], index) => ({ at, from, index })))("$at may import $from", ({ at, index }) => {
  expect([...refused]).not.toContain(fileOf("allowed", index, at));
});
