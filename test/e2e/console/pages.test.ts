/**
 * Every page of the console, as those find it who have a small screen, a slow network, no mouse or little sight; and
 * every table on it. In short axe looks at each third page, and each fifth shows its tables from their address again.
 */
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { closePages, hasBrowser, openBrowser, openPage, signIn } from "../../support/browser.ts";
import { Renter } from "../../support/compute/renter.ts";
import { eventually } from "../../support/eventually.ts";
import { partOf } from "../../support/in-full.ts";
import { barriers, beside, moved, rowsOf, tryTables, turned, visit, watchShifts } from "../../support/page-checks.ts";
import { ADMIN_TOKEN } from "../../support/process.ts";
import { Tenant } from "../../support/tenant.ts";
import { world } from "../../support/world.ts";

const at = world();
const { operator, url } = at;
/** As long as a name may be, with what turns a line around and with markup. */
const NAME = `<b>\u202e${"Wide".repeat(40)}</b>=1+1"x,y`.padEnd(200, "m");

const OF_OPERATOR = [
  "?account=@",
  "/accounts",
  "/accounts/@",
  "/accounts/@/keys",
  "/accounts/@/teams",
  "/accounts/@/ledger",
  "/accounts/@/statement",
  "/accounts/@/audit",
  "/keys?find=wide",
  "/calls?account=@",
  "/calls/@call",
  "/models",
  "/models/llama-7b",
  "/upstreams",
  "/upstreams/sandbox",
  "/compute",
  "/alerts",
  "/operators",
  "/changes?account=@",
  "/nowhere",
];
const OF_TENANT = ["", "/calls", "/playground", "/quickstart", "/keys", "/balance", "/webhooks", "/compute"];
const TABLES = [
  ...["Accounts", "Keys", "Teams", "Calls", "Price book", "Targets of aliases", "Upstreams", "Alerts", "Webhooks"],
  ...["Operators", "Changes", "Usage by model", "Usage by key", "Transactions", "GPU instances", "Keys found"],
  ...["Accounts by how long their money lasts", "Targets behind aliases"],
];

describe.runIf(hasBrowser)("each page", () => {
  let browser: Browser;
  let tenant: Tenant;
  let call: string;
  const captions = new Set<string>();

  beforeAll(async () => {
    const [opened, renter] = await Promise.all([openBrowser(), Renter.make(at, 100)]);
    browser = opened;
    const { account } = renter.tenant;
    await operator.call("PATCH", `/accounts/${account}`, { name: NAME });
    const made = await operator.key(account, { name: NAME, role: "owner", scopes: ["inference", "compute"] });
    tenant = new Tenant(operator, account, made.id, made.key);
    const model = await operator.instance(tenant);
    await operator.alias(tenant, [{ upstream: "sandbox", model: "llama-7b" }]);
    await Promise.all([
      renter.launch({ name: "one" }),
      operator.call("POST", `/accounts/${account}/teams`, { name: NAME }),
      operator.call("POST", `/accounts/${account}/teams`, { name: "research" }),
      operator.call("POST", `/operators`, { name: NAME, role: "read" }),
      operator.call("POST", `/accounts/${account}/credits`, { amount_usd: 2, reference: "=1+1" }),
      operator.call("POST", `/webhooks`, { url: "https://hooks.example.com/pages", events: ["key.created"] }),
    ]);
    const answers = [];
    for (const asked of [model, "llama-7b", "no-such-model"]) answers.push(await tenant.chat({ model: asked }));
    call = answers[0]?.headers.get("x-request-id") ?? "";
    await eventually("the calls are reported", async () => {
      const { data } = await operator.call<{ data: unknown[] }>("GET", `/calls?account=${account}`);
      return data.length >= 2 && (await operator.ask("GET", `/calls/${call}`)).status === 200;
    });
  });
  afterAll(() => closePages(browser));

  const filled = (path: string) => path.replace("@call", call).replace("@", tenant.account);

  /** What moves while it comes, and what does not fit. */
  async function seen(page: Page, path: string): Promise<string[]> {
    await visit(page, filled(path));
    const wide = await beside(page);
    return [
      ...(await turned(page)),
      ...(await moved(page)),
      ...(wide > 0 ? [`${wide} px stand beside the screen`] : []),
    ];
  }

  /** What each table does, and that its address shows the same `again`. */
  async function tried(page: Page, again: boolean): Promise<string[]> {
    const tables = await tryTables(page);
    for (const { caption } of tables) captions.add(caption);
    if (again && tables.length > 0) {
      const [address, rows] = [page.url().replace(/^.*\/console/, ""), await rowsOf(page)];
      await visit(page, "/nowhere");
      await visit(page, address);
      expect(await rowsOf(page), `${address} shows the same again`).toEqual(rows);
    }
    await moved(page);
    return tables.flatMap(({ caption, problems }) => problems.map((problem) => `${caption}: ${problem}`));
  }

  test.each([
    ["operator", OF_OPERATOR, ["?account=@", "/calls?account=@", "/accounts/@", "/models"]],
    ["tenant", OF_TENANT, ["", "/playground", "/keys"]],
  ] as const)(
    "of the %s: nothing moves, all fits 375 px, axe finds nothing serious, tables do as they say",
    async (who, paths, dark) => {
      const { page, complaints } = await openPage(browser, url, { width: 375 });
      await watchShifts(page);
      await page.goto("/console");
      await page.getByRole("button", { name: "Sign in" }).waitFor();
      const found: Record<string, string[]> = {};
      const note = (path: string, problems: string[]) => {
        if (problems.length > 0) found[path] = [...(found[path] ?? []), ...problems];
      };
      note("sign in", [...(await barriers(page)), ...(await moved(page))]);
      await signIn(page, who === "operator" ? ADMIN_TOKEN : tenant.key);
      for (const path of paths) {
        note(path, await seen(page, path));
        const inDark = partOf<string>(dark, 2).includes(path);
        if (!inDark && !partOf<string>(paths, 3).includes(path)) continue;
        note(path, await barriers(page));
        if (!inDark) continue;
        await page.emulateMedia({ colorScheme: "dark", reducedMotion: "reduce" });
        note(`${path}, dark`, await barriers(page, ["color-contrast"]));
        await page.emulateMedia({ colorScheme: "light" });
      }
      await page.setViewportSize({ width: 1280, height: 860 });
      await moved(page);
      for (const path of paths) {
        const again = partOf<string>(paths, 5).includes(path);
        note(`${path}, wide`, [...(await seen(page, path)), ...(await tried(page, again))]);
      }
      expect(found).toEqual({});
      expect(complaints).toEqual([]);
      await page.context().close();
    },
  );

  test("no table was left out", () => {
    expect([...captions]).toEqual(expect.arrayContaining(TABLES));
  });

  test("loaded anew from its address, slowly: nothing moves, and a table is sorted and searched as it was", async () => {
    const { page, complaints } = await openPage(browser, url);
    await watchShifts(page);
    for (const [key, path] of [
      [ADMIN_TOKEN, `/accounts/${tenant.account}/keys?keys.sort=-last_four&keys.q=wide`],
      [ADMIN_TOKEN, `?account=${tenant.account}`],
      [tenant.key, "?key.sort=calls"],
    ] as const) {
      await signIn(page, key, path);
      await visit(page, path);
      const rows = await rowsOf(page);
      expect(rows.length).toBeGreaterThan(0);
      await page.reload();
      await page.locator("main tbody tr").first().waitFor();
      expect(await rowsOf(page)).toEqual(rows);
      expect(await moved(page), path).toEqual([]);
      await page.context().clearCookies();
    }
    expect(complaints).toEqual([]);
    await page.context().close();
  });
});
