/** What `apply` finds to do: files as they are read, and the difference to what there is. */
import { describe, expect, it } from "vitest";
import { aliasKey, type Current } from "../../cli/apply/current.ts";
import { type Desired, desiredIn } from "../../cli/apply/desired.ts";
import { difference } from "../../cli/apply/difference.ts";
import { readYaml } from "../../cli/apply/file.ts";
import { tenantsIn } from "../../cli/apply/tenants.ts";
import { Failure } from "../../cli/failure.ts";
import type { Schemas } from "../../client/operator.ts";

const NOW = Date.parse("2026-11-22T10:00:00Z");
const OPTIONS = { prune: false, nowMs: NOW, credentials: false };
const NOTHING: Current = {
  upstreams: new Map(),
  models: new Map(),
  aliases: new Map(),
  accounts: new Map(),
  all: { upstreams: [], aliases: [] },
};
const desired = (yaml: string): Desired => desiredIn(readYaml(yaml));
const steps = (yaml: string, current: Current = NOTHING, options = OPTIONS) =>
  difference(desired(yaml), current, options).map(({ op, kind, id }) => `${op} ${kind} ${id}`);

function usageOf(act: () => unknown): string {
  try {
    act();
  } catch (error) {
    if (error instanceof Failure && error.ending === "usage") return error.message;
    throw error;
  }
  throw new Error("it was taken");
}

describe("a file", () => {
  it.each([
    ["a name twice", "accounts:\n  a: {}\n  a: {}\n", "unique"],
    [
      "a billion laughs",
      `a: &a [x,x,x,x,x,x,x,x,x,x]\n${"bcdefghi"
        .split("")
        .map((name, at) => `${name}: &${name} [${Array(10).fill(`*${"abcdefgh"[at]}`).join(",")}]`)
        .join("\n")}\n`,
      "alias",
    ],
    ["an amount with more digits than a number keeps", "accounts: {a: {balance_usd: 12345678.123456789}}", "quotes"],
    ["a tag", "accounts: !!js/function 'x'", "not read"],
    ["two documents", "accounts: {}\n---\naccounts: {}\n", "not read"],
    ["nesting without end", "[".repeat(20_000), "not read"],
    ["text that is no YAML", "accounts: {a: [}", "not read"],
    ["a list", "- a", "The file must be"],
    ["an unknown section", "acounts: {}", "Did you mean accounts?"],
    ["an unknown field", "accounts: {a: {rpm_limits: 5}}", "rpm_limit"],
    ["a wrong value", "accounts: {a: {rpm_limit: many}}", "accounts.a.rpm_limit"],
    ["an id that no account may have", "accounts: {A: {}}", "accounts.A.id"],
    [
      "a price below a nano-USD",
      "models: {m: {kind: chat, prices: {input_tokens: {cost_usd: '0.0000000001'}}}}",
      "9 decimals",
    ],
    ["a credential", "upstreams: {u: {base_url: 'https://u.example', api_key: abc}}", "keep credentials out of files"],
    [
      "a credential's source of another form",
      "upstreams: {u: {base_url: 'https://u.example', api_key_from: abc}}",
      "env:NAME",
    ],
    [
      "dated prices without a date",
      "models: {m: {kind: chat, later: [{prices: {requests: {cost_usd: 1}}}]}}",
      "from is required",
    ],
    ["a team of another name", "accounts: {a: {keys: {k: {team: none}}}}", "no team named 'none'"],
    ["a polluted prototype", "accounts: {__proto__: {name: x}}", "accounts.__proto__"],
    [
      "an alias whose account is a field",
      "aliases: {x: {account: a, targets: [{upstream: u, model: m}]}}",
      "accounts.<id>.aliases",
    ],
  ])("with %s is refused", (_, yaml, said) => {
    expect(usageOf(() => steps(yaml))).toContain(said);
  });

  it("keeps decimals, days and odd names as they are written", () => {
    const wanted = desired('accounts: {a: {balance_usd: "0.000000001", keys: {"no": {expires_at: 2037-01-01}}}}');
    expect(wanted.accounts.get("a")?.fields).toEqual({ name: "a", balance_usd: "0.000000001" });
    expect([...(wanted.accounts.get("a")?.keys ?? [])]).toEqual([["no", { expires_at: "2037-01-01" }]]);
  });
});

describe("CSV of tenants", () => {
  it("is accounts with a key each, in a team where one is named", () => {
    const wanted = tenantsIn(
      '\ufeffid,name,balance_usd,markup_percent,bills_monthly,team,key,key_models\r\na,A,10.5,20,yes,t,,\r\nb,"B, Inc",,,,,ci,x-* y\r\n',
    );
    expect(wanted.accounts.get("a")).toMatchObject({
      fields: { name: "A", balance_usd: "10.5", plan: { markup_percent: 20 }, bills_monthly: true },
    });
    expect([...(wanted.accounts.get("a")?.keys ?? [])]).toEqual([]);
    expect([...(wanted.accounts.get("b")?.keys ?? [])]).toEqual([["ci", { models: ["x-*", "y"] }]]);
    expect([...(tenantsIn("id\na\n").accounts.get("a")?.keys.keys() ?? [])]).toEqual(["main"]);
  });

  it.each([
    ["", "empty"],
    ["name\na", "one of them id"],
    ["id,nmae\na,b", "Did you mean name?"],
    ["id,id\na,b", "twice"],
    ["id\na\na", "stands in line 2 too"],
    ["id,name\n,x", "the id is missing"],
    ["id\na,b", "2 cells"],
    ["id,rpm_limit\na,ten", "is no number"],
    ["id,blocked\na,maybe", "neither yes nor no"],
    ["id,balance_usd\na,1e99", "balance_usd"],
    ["id,name\n__proto__,x", "accounts.__proto__"],
    ["id,key,key_role\na,,owner", "without a key"],
  ])("%j is refused", (text, said) => expect(usageOf(() => tenantsIn(text))).toContain(said));
});

const PRICES = "{input_tokens: {cost_usd: 0.2, price_usd: '0.250'}}";
const row = (from: string, price: number | null = 0.25, cost = 0.2) =>
  ({
    model: "m",
    kind: "chat",
    prices: { input_tokens: { cost_usd: cost, price_usd: price } },
    free: false,
    from,
  }) as Schemas["PriceBookRow"];
const book = (history: readonly Schemas["PriceBookRow"][]): Current => ({
  ...NOTHING,
  models: new Map([
    [
      "m",
      {
        ...row("2026-01-01T00:00:00.000Z"),
        max_output_tokens: 100,
        upstream: null,
        history,
      } as unknown as Schemas["Model"],
    ],
  ]),
});
const THERE = row("2026-01-01T00:00:00.000Z");

describe("prices", () => {
  it.each<[string, string, Schemas["PriceBookRow"][], string[]]>([
    ["the same, written otherwise", `prices: ${PRICES}`, [THERE], []],
    ["another price", `prices: ${PRICES}`, [row("2026-01-01T00:00:00.000Z", 0.3)], ["change prices m"]],
    [
      "a price of its own where there was none",
      `prices: ${PRICES}`,
      [row("2026-01-01T00:00:00.000Z", null)],
      ["change prices m"],
    ],
    ["none yet", `prices: ${PRICES}`, [], ["make prices m"]],
    [
      "a row to come",
      `later: [{from: 2027-01-01, prices: ${PRICES}}]`,
      [THERE],
      ["make prices m from 2027-01-01T00:00:00.000Z"],
    ],
    [
      "a row to come that is there",
      `later: [{from: 2027-01-01, prices: ${PRICES}}]`,
      [row("2027-01-01T00:00:00.000Z"), THERE],
      [],
    ],
    [
      "a row to come that differs",
      `later: [{from: 2027-01-01, prices: ${PRICES}}]`,
      [row("2027-01-01T00:00:00.000Z", 1), THERE],
      ["change prices m from 2027-01-01T00:00:00.000Z"],
    ],
    [
      "a row that has begun and holds",
      `prices: {input_tokens: {cost_usd: 9}}, later: [{from: 2026-06-01, prices: ${PRICES}}]`,
      [row("2026-06-01T00:00:00.000Z"), row("2026-01-01T00:00:00.000Z", 9)],
      [],
    ],
    [
      "a row that has begun and was never set",
      `prices: {input_tokens: {cost_usd: 9}}, later: [{from: 2026-06-01, prices: ${PRICES}}]`,
      [row("2026-01-01T00:00:00.000Z", 9)],
      ["change prices m"],
    ],
    ["another row to come, which stays", `prices: ${PRICES}`, [row("2028-01-01T00:00:00.000Z", 7), THERE], []],
  ])("%s", (_, yaml, history, found) => {
    expect(steps(`models: {m: {kind: chat, max_output_tokens: 100, ${yaml}}}`, book(history))).toEqual(found);
  });

  it("to come are deleted by --prune alone, and those that hold never", () => {
    const current = book([row("2028-01-01T00:00:00.000Z", 7), row("2027-01-01T00:00:00.000Z"), THERE]);
    const yaml = `models: {m: {later: [{from: 2027-01-01, prices: ${PRICES}}]}}`;
    expect(steps(yaml, current)).toEqual([]);
    expect(steps(yaml, current, { ...OPTIONS, prune: true })).toEqual(["drop prices m from 2028-01-01T00:00:00.000Z"]);
  });
});

const UPSTREAM = {
  id: "u",
  base_url: "https://u.example",
  api_key_set: true,
  service_api_key_set: false,
  service_checked_at: null,
  region: null,
  shared: false,
  timeouts: { connect_ms: 10_000, first_byte_ms: 1, answer_ms: 1, idle_ms: 1, total_ms: 1 },
} as const;
const UP: Current = { ...NOTHING, upstreams: new Map([["u", UPSTREAM]]) };

describe("upstreams and aliases", () => {
  it.each<[string, string, string[]]>([
    ["the same address, written otherwise", "base_url: 'https://u.example/v1/'", []],
    ["one of its timeouts", "timeouts: {connect_ms: 10000}", []],
    ["another timeout", "timeouts: {connect_ms: 1}", ["change upstream u"]],
    ["a stored credential, which cannot be compared", "base_url: 'https://u.example', api_key_from: 'env:U'", []],
    ["a path of the same host", "base_url: 'https://u.example/sub'", ["change upstream u"]],
  ])("%s", (_, yaml, found) => expect(steps(`upstreams: {u: {${yaml}}}`, UP)).toEqual(found));

  it("another host needs the credential again, and gets it", () => {
    const moved = (more: string) => `upstreams: {u: {base_url: 'https://other.example'${more}}}`;
    expect(usageOf(() => steps(moved(""), UP))).toContain("another host gets no stored key");
    const [change] = difference(desired(moved(", api_key_from: 'env:U'")), UP, OPTIONS);
    expect(change?.step).toMatchObject({ do: "change_upstream", keys: { apiKey: { env: "U" } } });
    const [again] = difference(desired("upstreams: {u: {api_key_from: 'env:U'}}"), UP, {
      ...OPTIONS,
      credentials: true,
    });
    expect(again?.fields).toEqual([{ field: "api_key", to: "(of U)" }]);
    expect(usageOf(() => steps("upstreams: {v: {base_url: 'https://v.example'}}", UP))).toContain(
      "api_key_from is required",
    );
  });

  const alias = (account: string | null) =>
    ({
      alias: "x",
      account,
      targets: [{ upstream: "u", model: "m", priority: 0, weight: 1, drain: false }],
      retry_on: [502, 500],
      margins: [],
    }) as Schemas["Alias"];
  const aliases: Current = {
    ...UP,
    aliases: new Map([[aliasKey("x", null), alias(null)]]),
    all: { upstreams: ["u", "v"], aliases: [alias(null), alias("a")] },
  };

  it("targets are compared with what is left out, retries in any order", () => {
    expect(steps("aliases: {x: {targets: [{upstream: u, model: m}], retry_on: [500, 502]}}", aliases)).toEqual([]);
    expect(steps("aliases: {x: {targets: [{upstream: u, model: m, weight: 2}]}}", aliases)).toEqual(["change alias x"]);
    expect(steps("accounts: {a: {aliases: {x: {targets: [{upstream: u, model: m}]}}}}", aliases)).toEqual([
      "make account a",
      "make alias a/x",
    ]);
  });

  it("are deleted by --prune alone, of sections that the file has", () => {
    const prune = { ...OPTIONS, prune: true };
    expect(steps("aliases: {x: {targets: [{upstream: u, model: m}]}}", aliases)).toEqual([]);
    expect(steps("upstreams: {u: {}}\naliases: {x: {targets: [{upstream: u, model: m}]}}", aliases, prune)).toEqual([
      "drop alias a/x",
      "drop upstream v",
    ]);
  });
});

const account = (fields: Partial<Schemas["Account"]> = {}, keys: Partial<Schemas["Key"]>[] = []): Current => ({
  ...NOTHING,
  accounts: new Map([
    [
      "a",
      {
        fields: {
          id: "a",
          name: "a",
          rpm_limit: null,
          max_budget: 50,
          budget_duration: "total",
          plan: { markup_percent: 20, overrides: {} },
          next_plan: null,
          ...fields,
        } as Schemas["Account"],
        teams: new Map([["t", { id: "team_1", name: "t", max_budget: null } as Schemas["Team"]]]),
        keys: new Map(keys.map((key) => [String(key.name), key as Schemas["Key"]])),
      },
    ],
  ]),
});

describe("accounts, teams and keys", () => {
  it.each<[string, string, Current, string[]]>([
    ["what is named alike", "max_budget: '50.00', plan: {markup_percent: 20}", account(), []],
    ["an opening balance, which is booked once", "balance_usd: 7", account(), []],
    ["a limit", "rpm_limit: 5", account(), ["change account a"]],
    ["a limit taken away", "max_budget: null", account(), ["change account a"]],
    [
      "another plan",
      "plan: {markup_percent: 20, overrides: {m: {markup_percent: 1}}}",
      account(),
      ["change account a"],
    ],
    ["a plan to come", "plan: {markup_percent: 30, from: 2027-01-01}", account(), ["change account a"]],
    [
      "a plan to come that is there",
      "plan: {markup_percent: 30, from: 2027-01-01}",
      account({ next_plan: { markup_percent: 30, overrides: {}, from: "2027-01-01T00:00:00.000Z" } }),
      [],
    ],
    ["a plan that has begun", "plan: {markup_percent: 20, from: 2026-01-01}", account(), []],
    ["a team", "teams: {t: {max_budget: 5}, n: {}}", account(), ["change team a/t", "make team a/n"]],
    ["a key", "keys: {k: {team: t}}", account(), ["make key a/k"]],
    [
      "a key that is there",
      "keys: {k: {team: t, scopes: [compute, inference], models: [b, a]}}",
      account({}, [{ id: "key_1", name: "k", team: "team_1", scopes: ["inference", "compute"], models: ["a", "b"] }]),
      [],
    ],
    [
      "a key in another team",
      "keys: {k: {team: null}}",
      account({}, [{ id: "key_1", name: "k", team: "team_1" }]),
      ["change key a/k"],
    ],
    ["a key that the file does not name", "keys: {}", account({}, [{ id: "key_1", name: "old" }]), []],
  ])("%s", (_, yaml, current, found) => expect(steps(`accounts: {a: {${yaml}}}`, current)).toEqual(found));

  it("a plan that has begun is sent without its time, which the gateway would refuse as past", () => {
    const [change] = difference(
      desired("accounts: {a: {plan: {markup_percent: 9, from: 2026-01-01}}}"),
      account(),
      OPTIONS,
    );
    expect(change?.step).toEqual({ do: "change_account", account: "a", body: { plan: { markup_percent: 9 } } });
  });
});
