import { describe, expect, it } from "vitest";
import type { AccountId } from "../../../src/core/ids.ts";
import type { ModelRow } from "../../../src/core/pricing/prices.ts";
import { pinnedTo, resolveModel } from "../../../src/core/routing/resolution.ts";
import { EMPTY_SNAPSHOT, type RoutingSnapshot, type Target } from "../../../src/core/routing/routes.ts";

const row = (model: string, input: number): ModelRow => ({
  model,
  kind: "chat",
  fromMs: 0,
  costNanoUsd: { input_tokens: input },
  priceNanoUsd: { input_tokens: input },
  maxOutputTokens: 10,
}) as ModelRow; // biome-ignore format: a row
const target = (upstream: string, some: Partial<Target> = {}): Target => ({
  upstream,
  model: `m-${upstream}`,
  priority: 0,
  weight: 1,
  ...some,
});
const routing = (...targets: Target[]): RoutingSnapshot => ({
  ...EMPTY_SNAPSHOT,
  aliases: { " chat": { alias: "chat", account: null, targets, retryOn: [] } },
  models: Object.fromEntries(["m-a", "m-b"].map((model, at) => [model, [row(model, at + 1)]])),
});
const resolve = (...targets: Target[]) =>
  resolveModel(routing(...targets), "acme" as AccountId, "chat", { kinds: ["chat"], instances: true }, 1);

describe("a target that is drained", () => {
  it("takes no new call, neither first nor after a failure", () => {
    const resolved = resolve(target("a", { drain: true }), target("b", { priority: 1 }));
    expect(resolved.ok && resolved.route.targets.map(({ upstream }) => upstream)).toEqual(["b"]);
  });

  it("still sets the alias's price: to drain moves traffic and no price", () => {
    const drained = resolve(target("a", { drain: true }), target("b", { priority: 1 }));
    expect(drained.ok && drained.route.row.model).toBe("m-a");
  });

  it("is not asked either where it is the only one", () => {
    expect(resolve(target("a", { drain: true }))).toMatchObject({
      ok: false,
      refusal: { kind: "no_healthy_upstream" },
    });
  });

  it("is where follow-ups of its ids still go", () => {
    expect(pinnedTo({ upstream: "a", targetModel: "m-a" })).toMatchObject([{ upstream: "a", model: "m-a" }]);
  });
});
