import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ClusterLaunch, InstanceLaunch, QuoteBody } from "../../../src/core/compute/bodies.ts";
import type { Decision, Facts } from "../../../src/core/compute/facts.ts";
import { launchCluster, launchInstance } from "../../../src/core/compute/launches.ts";
import { quoteOf } from "../../../src/core/compute/quotes.ts";
import { toHttp } from "../../../src/core/http-refusal.ts";
import type { AccountId, AccountNumber, KeyId } from "../../../src/core/ids.ts";
import {
  type LaunchTemplate,
  templateDocument,
  templateNamed,
  templatesFor,
  withDefaults,
} from "../../../src/core/launch-templates.ts";
import { toUsd } from "../../../src/core/pricing/money.ts";
import { LENGTHS, SENT } from "../../support/compute/rows.ts";

const usd = (amount: number) => amount * 1_000_000_000;
const FACTS: Facts = {
  ...LENGTHS,
  nowMs: SENT,
  account: 7 as AccountNumber,
  shared: false,
  registered: [],
  deployment: "abcdef",
  by: { keyId: "key_1" as KeyId, teamId: null, user: 3 },
  nextId: 1001,
  random: "abc234",
  rows: [],
  maxGpus: { key: null, team: null, account: null },
  money: { balanceNanoUsd: usd(1_000_000), heldNanoUsd: 0, floorNanoUsd: 0 },
  budgets: [],
  sshFingerprint: null,
  regions: [
    { id: "eu-1", gpuType: "H100 SXM", gpusPerNode: 4 },
    { id: "eu-2", gpuType: "unsold", gpusPerNode: 8 },
  ],
  storageRegions: [],
  storagePrices: new Map([
    ["drive", { price: { storage_gb_days: 3_333_333 }, cost: { storage_gb_days: 2_000_000 } }],
    ["filesystem", { price: { storage_gb_days: 1_000_001 }, cost: {} }],
  ]),
  gpuPrices: new Map([
    ["H100 SXM", { price: { gpu_hours: 1_234_567_891, interruptible_gpu_hours: usd(1) }, cost: { gpu_hours: usd(1) } }],
  ]),
};

/** The hold of a launch, or what it is refused with. */
function heldBy(decision: Decision): number | string {
  if (!decision.ok) return toHttp(decision.refusal).message;
  const acts = [decision, ...(decision.also ?? [])].flatMap(({ acts }) => acts);
  return toUsd(acts.reduce((sum, act) => sum + (act.act === "hold" ? act.amountNanoUsd : 0), 0));
}
function quoted(body: object, facts: Facts = FACTS): number | string {
  const quote = quoteOf(facts, QuoteBody.parse(body));
  return "ok" in quote ? toHttp(quote.refusal).message : quote.held_amount;
}

/** New drives or filesystems, each with a name of its own. */
const storage = (name: string) =>
  fc
    .array(
      fc.record({ size_gb: fc.constantFrom(50, 100, 500), mount_path: fc.constantFrom(undefined, "/a", "/b", "/b/") }),
      {
        maxLength: 3,
      },
    )
    .map((some) => some.map((one, index) => ({ ...one, name: `${name}${index}` })));

describe("a quote", () => {
  const wanted = {
    region_id: fc.constantFrom("eu-1", "eu-2", "eu-3"),
    interruptible: fc.option(fc.boolean(), { nil: undefined }),
    new_cloud_drives: fc.option(storage("d"), { nil: undefined }),
    new_shared_filesystems: fc.option(storage("f"), { nil: undefined }),
  };
  const seats = [FACTS, { ...FACTS, shared: true }, { ...FACTS, storagePrices: new Map() }] as const;
  it("is what an instance's launch holds, or is refused with its words", () => {
    const body = fc.record({
      ...wanted,
      gpu_type: fc.constantFrom("H100 SXM", "unsold", "other"),
      gpu_count: fc.integer({ min: 1, max: 8 }),
      estimated_duration_hours: fc.option(fc.integer({ min: 0, max: 72 }), { nil: undefined }),
    });
    fc.assert(
      fc.property(body, fc.constantFrom(...seats), (fields, facts) => {
        const launch = launchInstance(facts, InstanceLaunch.parse({ ...fields, container_image: "img:1" }));
        expect(quoted(fields, facts)).toBe(heldBy(launch));
      }),
    );
  });

  it("is what a cluster's launch holds", () => {
    const body = fc.record({
      ...wanted,
      gpu_count: fc.constantFrom(1, 2, 4, 8),
      replicas: fc.integer({ min: 2, max: 8 }),
      estimated_duration_hours: fc.integer({ min: 1, max: 72 }),
    });
    fc.assert(
      fc.property(body, fc.constantFrom(...seats), (fields, facts) => {
        const parsed = ClusterLaunch.safeParse({ ...fields, container_image: "img:1" });
        if (parsed.success) expect(quoted(fields, facts)).toBe(heldBy(launchCluster(facts, parsed.data)));
        else expect(quoted(fields, facts)).toContain("`new_cloud_drives` cannot be attached to a cluster");
      }),
    );
  });

  it("says what a cluster must have", () => {
    const cluster = { region_id: "eu-1", gpu_count: 2, replicas: 2, estimated_duration_hours: 3 };
    expect(quoted(cluster)).toBeCloseTo(4 * 3 * 1.234567891, 9);
    expect(quoted({ ...cluster, gpu_count: 3 })).toContain("`gpu_count` of a cluster");
    expect(quoted({ ...cluster, estimated_duration_hours: 0 })).toContain("`estimated_duration_hours` of a cluster");
    expect(() => QuoteBody.parse({ ...cluster, replicas: 9 })).toThrow();
  });

  it("shows what was asked, and the rate of all of it", () => {
    const body = QuoteBody.parse({ region_id: "eu-1", gpu_count: 3, interruptible: true });
    expect(quoteOf(FACTS, body)).toEqual({
      region_id: "eu-1",
      gpu_type: "H100 SXM",
      gpu_count: 3,
      replicas: 1,
      interruptible: true,
      estimated_duration_hours: null,
      hourly_rate_usd: 3,
      storage_daily_usd: 0,
      held_amount: 3,
    });
  });
});

describe("a template", () => {
  const template = (over: Partial<LaunchTemplate> = {}): LaunchTemplate => ({
    id: 1,
    account: null,
    name: "t",
    description: null,
    defaults: { gpu_count: 2, startup_command: "run" },
    ...over,
  });

  it("fills what a body leaves out, and nothing that it says, not even null", () => {
    expect(withDefaults({ template_id: 1, gpu_count: 1 }, template())).toEqual({
      template_id: 1,
      gpu_count: 1,
      startup_command: "run",
    });
    const without = { template_id: 1, startup_command: null, region_id: "r", gpu_type: "g", container_image: "i" };
    expect(InstanceLaunch.parse(withDefaults(without, template())).startup_command).toBeUndefined();
  });

  it("is named by an integer in an object, by nothing else", () => {
    expect(templateNamed({ template_id: 3 })).toBe(3);
    for (const body of [{}, { template_id: "3" }, { template_id: 1.5 }, { template_id: null }, [3], null, "x"]) {
      expect(templateNamed(body)).toBeUndefined();
    }
  });

  it("is seen by every account, or by its own", () => {
    const all = [template({ id: 9 }), template({ id: 2, account: "a" as AccountId })];
    expect(templatesFor(all, "a" as AccountId).map(({ id }) => id)).toEqual([2, 9]);
    expect(templatesFor(all, "b" as AccountId).map(({ id }) => id)).toEqual([9]);
    expect(templateDocument(template({ account: "a" as AccountId }))).toEqual({
      id: 1,
      name: "t",
      description: null,
      public: false,
      defaults: { gpu_count: 2, startup_command: "run" },
    });
  });
});
