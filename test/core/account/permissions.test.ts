import { describe, expect, it } from "vitest";
import {
  denialOf,
  type KeyChanges,
  type ManageAction,
  manages,
  sees,
  type TeamChanges,
} from "../../../src/core/account/permissions.ts";
import { type Key, type Limits, NEW_KEY, NO_LIMITS } from "../../../src/core/account/tenant.ts";
import { asId, type KeyDigest, type KeyId, type TeamId } from "../../../src/core/ids.ts";

const team = asId<TeamId>("team_1");
const TEAM = { id: team, name: "t", blocked: false, createdAtMs: 0, deletedAtMs: null };
const key = (some: Partial<Key> = {}): Key => ({
  id: asId<KeyId>("key_other"),
  ...NEW_KEY,
  name: "x",
  lastFour: "abcd",
  createdAtMs: 0,
  revokedAtMs: null,
  ...some,
});
const holder = (some: Partial<Key> = {}) => key({ id: asId<KeyId>("key_mine"), role: "admin", ...some });
const limits = (some: Partial<Limits>): Limits => ({ ...NO_LIMITS, ...some });

const creating = (fields: Key): ManageAction => ({
  kind: "create_key",
  id: asId<KeyId>("key_new"),
  digest: asId<KeyDigest>("d"),
  lastFour: "abcd",
  fields,
});
const amending = (target: Key, changes: KeyChanges): ManageAction => ({ kind: "amend_key", id: target.id, changes });
const rotating = (target: Key): ManageAction => ({
  kind: "rotate_key",
  id: target.id,
  digest: asId<KeyDigest>("d"),
  lastFour: "abcd",
  graceMs: 0,
});
const exceeds = (field: string) => ({ why: "exceeds", field });

/** What the holder has, what another key would have, and the field in which that is more; null: it is not. */
const CASES: [name: string, mine: Partial<Key>, theirs: Partial<Key>, field: string | null][] = [
  ["everything within", {}, {}, null],
  ["a role above", {}, { role: "owner" }, "role"],
  ["the same role", {}, { role: "admin" }, null],
  ["a scope more", {}, { scopes: ["inference", "compute"] }, "scopes"],
  ["fewer scopes", { scopes: ["inference", "compute"] }, { scopes: ["compute"] }, null],
  ["every model against a list", { models: ["chat"] }, { models: null }, "models"],
  ["a listed model", { models: ["chat", "llama-*"] }, { models: ["chat", "llama-7b", "llama-7*"] }, null],
  ["a beginning against a name", { models: ["chat"] }, { models: ["chat*"] }, "models"],
  ["a shorter beginning", { models: ["llama-7*"] }, { models: ["llama-*"] }, "models"],
  ["no model", { models: ["chat"] }, { models: [] }, null],
  ["no end against an end", { expiresAtMs: 10 }, { expiresAtMs: null }, "expires_at"],
  ["a later end", { expiresAtMs: 10 }, { expiresAtMs: 11 }, "expires_at"],
  ["the same end", { expiresAtMs: 10 }, { expiresAtMs: 10 }, null],
  ["no rpm limit against one", { limits: limits({ rpm_limit: 5 }) }, {}, "rpm_limit"],
  ["a higher tpm limit", { limits: limits({ tpm_limit: 5 }) }, { limits: limits({ tpm_limit: 6 }) }, "tpm_limit"],
  ["a lower rpd limit", { limits: limits({ rpd_limit: 5 }) }, { limits: limits({ rpd_limit: 4 }) }, null],
  [
    "more calls at once",
    { limits: limits({ max_parallel_requests: 1 }) },
    { limits: limits({ max_parallel_requests: 2 }) },
    "max_parallel_requests",
  ],
  ["the default free limit against a lower one", { limits: limits({ free_rpm_limit: 5 }) }, {}, "free_rpm_limit"],
  ["a free limit above the default", {}, { limits: limits({ free_rpm_limit: 121 }) }, "free_rpm_limit"],
  ["a free limit of the default's", {}, { limits: limits({ free_rpm_limit: 120 }) }, null],
  ["the default free limit against a higher one", { limits: limits({ free_rpm_limit: 500 }) }, {}, null],
  ["no budget against one", { limits: limits({ maxBudgetNanoUsd: 5, budgetDuration: "day" }) }, {}, "max_budget"],
  [
    "the same budget in a shorter window",
    { limits: limits({ maxBudgetNanoUsd: 5, budgetDuration: "month" }) },
    { limits: limits({ maxBudgetNanoUsd: 5, budgetDuration: "week" }) },
    "budget_duration",
  ],
  [
    "the same budget in a longer window",
    { limits: limits({ maxBudgetNanoUsd: 5, budgetDuration: "day" }) },
    { limits: limits({ maxBudgetNanoUsd: 5, budgetDuration: "total" }) },
    null,
  ],
];

describe("what a key may do to others", () => {
  it("a member's key manages nothing", () => {
    const member = holder({ role: "member" });
    const actions: ManageAction[] = [
      creating(key()),
      rotating(key()),
      amending(key(), { name: "y" }),
      { kind: "revoke_key", id: key().id },
      { kind: "delete_team", id: team },
    ];
    for (const action of actions) expect(denialOf(member, action, key())).toEqual({ why: "role" });
  });

  it("no key changes, revokes or rotates itself", () => {
    const mine = holder({ role: "owner" });
    for (const action of [
      amending(mine, { name: "y" }),
      rotating(mine),
      { kind: "revoke_key", id: mine.id } as const,
    ]) {
      expect(denialOf(mine, action, mine)).toEqual({ why: "own_key" });
    }
  });

  it.each(CASES)("a new key with %s", (_, mine, theirs, field) => {
    expect(denialOf(holder(mine), creating(key(theirs)), undefined) ?? null).toEqual(field && exceeds(field));
  });

  it.each(CASES)("a rotation of a key with %s, whose new secret the holder would see", (_, mine, theirs, field) => {
    const target = key(theirs);
    expect(denialOf(holder(mine), rotating(target), target) ?? null).toEqual(field && exceeds(field));
  });

  it.each(CASES)("a change to %s", (_, mine, theirs, field) => {
    const target = key({ limits: limits({ budgetDuration: "total" }) });
    const changes = { ...theirs, ...(theirs.limits && { limits: theirs.limits }) };
    const expected = Object.keys(theirs).length === 0 ? null : field && exceeds(field);
    expect(denialOf(holder(mine), amending(target, changes), target) ?? null).toEqual(expected);
  });

  it("what a key had before may stay: only what changes is held against the holder", () => {
    const target = key({ models: null, scopes: ["inference", "compute"] });
    expect(
      denialOf(holder({ models: ["chat"] }), amending(target, { name: "y", blocked: true }), target),
    ).toBeUndefined();
  });

  it("an amount keeps its window: raising it in a shorter one than the holder's is more", () => {
    const mine = holder({ limits: limits({ maxBudgetNanoUsd: 5, budgetDuration: "month" }) });
    const daily = key({ limits: limits({ maxBudgetNanoUsd: 1, budgetDuration: "day" }) });
    expect(denialOf(mine, amending(daily, { limits: { maxBudgetNanoUsd: 2 } }), daily)).toEqual(
      exceeds("budget_duration"),
    );
    expect(denialOf(mine, amending(daily, { limits: { rpm_limit: 2 } }), daily)).toBeUndefined();
    const endless = key();
    expect(denialOf(mine, amending(endless, { limits: { budgetDuration: "total" } }), endless)).toEqual(
      exceeds("max_budget"),
    );
  });

  it("a key of a higher role is out of reach, whatever is changed", () => {
    const owner = key({ role: "owner" });
    for (const action of [amending(owner, { name: "y" }), { kind: "revoke_key", id: owner.id } as const]) {
      expect(denialOf(holder(), action, owner)).toEqual(exceeds("role"));
      expect(denialOf(holder({ role: "owner" }), action, owner)).toBeUndefined();
    }
  });

  it("a key of a team makes keys in that team alone and manages no team", () => {
    const mine = holder({ team });
    expect(denialOf(mine, creating(key({ team: null })), undefined)).toEqual(exceeds("team"));
    expect(denialOf(mine, creating(key({ team: asId<TeamId>("team_2") })), undefined)).toEqual(exceeds("team"));
    expect(denialOf(mine, creating(key({ team })), undefined)).toBeUndefined();
    expect(denialOf(mine, { kind: "amend_team", id: team, changes: {} }, undefined)).toEqual({ why: "team_key" });
    expect(denialOf(holder(), { kind: "amend_team", id: team, changes: {} }, undefined)).toBeUndefined();
  });

  it("a key that was held back by its team is not let out by who has less than it", () => {
    const mine = holder({ limits: limits({ rpm_limit: 5 }) });
    const wide = key({ team });
    for (const other of [null, asId<TeamId>("team_2")]) {
      expect(denialOf(mine, amending(wide, { team: other }), wide)).toEqual(exceeds("rpm_limit"));
      expect(denialOf(holder(), amending(wide, { team: other }), wide)).toBeUndefined();
      expect(denialOf(mine, amending(wide, { team: other, limits: { rpm_limit: 5 } }), wide)).toBeUndefined();
    }
    expect(denialOf(mine, amending(wide, { team, name: "y" }), wide)).toBeUndefined();
  });
});

describe("what a key may do to teams", () => {
  const target = (some: Partial<Limits> = {}, hasHigherRole = false) => ({
    team: { id: team, name: "t", blocked: false, limits: limits(some), createdAtMs: 0, deletedAtMs: null },
    hasHigherRole,
  });
  const amend = (changes: TeamChanges): ManageAction => ({ kind: "amend_team", id: team, changes });
  const create = (some: Partial<Limits>): ManageAction => ({
    kind: "create_team",
    id: team,
    fields: { name: "t", blocked: false, limits: limits(some) },
  });

  it("one that holds a key of a higher role is neither deleted, blocked nor limited; its name is nobody's", () => {
    const held = target({}, true);
    for (const action of [
      { kind: "delete_team", id: team } as const,
      amend({ blocked: true }),
      amend({ limits: { rpm_limit: 0 } }),
    ]) {
      expect(denialOf(holder(), action, held)).toEqual(exceeds("role"));
      expect(denialOf(holder(), action, target())).toBeUndefined();
    }
    expect(denialOf(holder(), amend({ name: "y" }), held)).toBeUndefined();
  });

  it("none gets more than its giver has", () => {
    const mine = holder({ limits: limits({ rpm_limit: 5, maxBudgetNanoUsd: 10, budgetDuration: "month" }) });
    const within = { rpm_limit: 5, maxBudgetNanoUsd: 10, budgetDuration: "month" } as const;
    expect(denialOf(mine, create(within), undefined)).toBeUndefined();
    expect(denialOf(mine, create({ ...within, rpm_limit: 6 }), undefined)).toEqual(exceeds("rpm_limit"));
    expect(denialOf(mine, create({ ...within, maxBudgetNanoUsd: null }), undefined)).toEqual(exceeds("max_budget"));
    expect(denialOf(mine, amend({ limits: { rpm_limit: null } }), target({ rpm_limit: 1 }))).toEqual(
      exceeds("rpm_limit"),
    );
    // The window that is not named is the one that stands.
    const daily = target({ maxBudgetNanoUsd: 1, budgetDuration: "day" });
    expect(denialOf(mine, amend({ limits: { maxBudgetNanoUsd: 2 } }), daily)).toEqual(exceeds("budget_duration"));
    expect(denialOf(mine, amend({ limits: { rpm_limit: 2 } }), daily)).toBeUndefined();
  });
});

describe("the operator", () => {
  it("has no ceiling: everything that a key is denied, it may do", () => {
    const owner = key({ role: "owner" });
    const target = { team: { ...TEAM, limits: NO_LIMITS }, hasHigherRole: true };
    const actions: [ManageAction, Parameters<typeof denialOf>[2]][] = [
      [creating(owner), undefined],
      [amending(owner, { role: "owner", scopes: ["inference", "compute"] }), owner],
      [rotating(owner), owner],
      [{ kind: "delete_team", id: team }, target],
    ];
    for (const [action, on] of actions) {
      expect(denialOf(holder({ role: "member" }), action, on)).toEqual({ why: "role" });
      expect(denialOf(null, action, on)).toBeUndefined();
    }
    expect(sees(null, asId<TeamId>("team_2"))).toBe(true);
    expect(manages(null)).toBe(true);
  });
});
