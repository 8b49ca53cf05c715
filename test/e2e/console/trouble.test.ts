/** What the console shows where something is wrong: the gateway, the network, the address, another tab, too many rows. */
import type { Browser, Page, Route } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { closePages, hasBrowser, openBrowser, openPage, signIn, signInByHand } from "../../support/browser.ts";
import { partOf } from "../../support/in-full.ts";
import { unique } from "../../support/operator.ts";
import { rowsOf, visit } from "../../support/page-checks.ts";
import { ADMIN_TOKEN } from "../../support/process.ts";
import { allowedMs } from "../../support/slowness.ts";
import type { Tenant } from "../../support/tenant.ts";
import { world } from "../../support/world.ts";

const { operator, url } = world();
const OF_OPERATOR = [
  ...["", "/accounts", "/accounts/x", "/keys?find=abcd", "/calls", "/calls/x", "/models", "/models/x", "/upstreams"],
  ...["/upstreams/x", "/compute", "/alerts", "/operators", "/changes"],
];

describe.runIf(hasBrowser)("trouble", () => {
  let browser: Browser;
  let tenant: Tenant;
  let page: Page;
  let complaints: string[];
  beforeAll(async () => {
    [browser, tenant] = await Promise.all([openBrowser(), operator.tenant({}, { role: "owner" })]);
    ({ page, complaints } = await openPage(browser, url));
    await signIn(page, ADMIN_TOKEN);
    await visit(page, "/nowhere");
  });
  afterEach(async () => {
    await page.unrouteAll({ behavior: "ignoreErrors" });
    await page.goto("/console/nowhere");
    expect(complaints).toEqual([]);
  });
  afterAll(() => closePages(browser));

  const alert = (text: string | RegExp) => page.getByRole("alert").filter({ hasText: text }).first();
  const answers = (how: (route: Route) => Promise<void>) => page.route("**/console/api/admin/**", how);

  test("a gateway that is down: each page says so, and goes on when it is up again", async () => {
    for (const path of partOf(OF_OPERATOR, 5)) {
      await visit(page, "/nowhere");
      await answers((route) => route.abort());
      await visit(page, path);
      await alert("The gateway cannot be reached.").waitFor();
      await page.unrouteAll({ behavior: "ignoreErrors" });
      for (const again of (await page.getByRole("button", { name: "Try again" }).all()).reverse()) await again.click();
      await expect.poll(() => page.getByText("The gateway cannot be reached.").count(), { message: path }).toBe(0);
    }
  });

  test("a gateway that is down at the beginning, and when somebody signs out", async () => {
    await page.route("**/console/api/session", (route) => route.abort());
    await page.reload();
    await alert("The gateway cannot be reached.").waitFor();
    await page.unrouteAll({ behavior: "ignoreErrors" });
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByRole("heading", { name: "No such page" }).waitFor();
    await page.route("**/console/api/session", (route) => route.abort());
    await page.getByRole("button", { name: "Sign out" }).click();
    await alert("The gateway cannot be reached.").waitFor();
  });

  test.each<[string, (route: Route) => Promise<void>, string]>([
    [
      "a proxy's page",
      (route) => route.fulfill({ status: 502, body: "<h1>Bad</h1>", contentType: "text/html" }),
      "502",
    ],
    ["JSON that is cut", (route) => route.fulfill({ body: '{"data":[', contentType: "application/json" }), "broke off"],
  ])("%s is said, with what to do", async (_, how, said) => {
    await answers(how);
    await visit(page, "/accounts");
    await alert(said).waitFor();
    expect(await page.getByRole("button", { name: "Try again" }).count()).toBeGreaterThan(0);
  });

  test("an answer that does not come is waited for aloud; live calls wait for it too", async () => {
    const late = await page.context().newPage();
    await late.clock.install();
    let asked = 0;
    await late.route("**/console/api/admin/calls**", () => {
      asked += 1;
    });
    await late.goto("/console/calls?live=1");
    await expect.poll(() => asked, { timeout: 10_000 }).toBe(1);
    await late.getByText("Loading…").waitFor();
    await late.clock.runFor(6_000);
    await late.getByText("Still loading: the gateway is slow to answer.").waitFor();
    expect(asked).toBe(1);
    await late.close();
  });

  test("a part of the console that is gone, as after a deployment, is said", async () => {
    const old = await page.context().newPage();
    await old.goto("/console");
    await old.getByRole("heading", { name: "Overview" }).waitFor();
    await old.route("**/console/*.js", (route) => route.fulfill({ status: 404, body: "" }));
    await old.getByRole("link", { name: "Accounts" }).click();
    await old.getByRole("alert").filter({ hasText: "has a newer console" }).waitFor();
    await old.unrouteAll({ behavior: "ignoreErrors" });
    await old.getByRole("button", { name: "Load it again" }).click();
    await old.getByRole("heading", { name: "Accounts" }).waitFor();
    await old.close();
  });

  test("an address that no link has shows a page, never nothing", async () => {
    const addresses = [
      ...[
        "/accounts/%E0%A4%A",
        "/accounts/..%2F..%2Fv1",
        "/accounts/%00",
        "/calls/%3Cb%3E",
        "/models/%2e%2e",
        "/a/b/c/d",
      ],
      ...["/calls?from=-1h", "/calls?from=x&to=y", "/calls?status=%F0%9F", "/?range=1e9&from=9&to=8", "/?account=%00"],
      ...["/models?models.sort=__proto__&models.q=%5B", "/accounts?accounts.sort=-constructor", "/keys?find=%25%00"],
      `/accounts/${tenant.account}/statement?month=x`,
      `/accounts/${tenant.account}/nothing`,
    ];
    for (const path of partOf(addresses, 3)) {
      await visit(page, path);
      expect((await page.locator("main").textContent())?.length, path).toBeGreaterThan(20);
    }
  });

  test("who signs out or in does so in every tab; the back button brings nothing back", async () => {
    const { page: first, complaints: said } = await openPage(browser, url);
    await signIn(first, tenant.key, "/keys");
    await first.getByRole("row", { name: /e2e/ }).waitFor();
    const second = await first.context().newPage();
    await second.goto("/console/balance");
    await second.getByRole("heading", { name: "Balance and limits" }).waitFor();
    await second.getByRole("button", { name: "Sign out" }).click();
    await first.getByRole("button", { name: "Sign in" }).waitFor();
    await second.goto("about:blank");
    await second.goBack();
    await second.getByRole("button", { name: "Sign in" }).waitFor();
    expect(await second.locator("main tbody tr").count()).toBe(0);
    await signInByHand(second, ADMIN_TOKEN);
    await first.getByRole("link", { name: "Operators" }).waitFor();
    const other = await operator.tenant({ name: "Another" }, { role: "owner", name: "theirs" });
    await second.context().clearCookies();
    await signInByHand(second, other.key);
    await first.getByText("Another").first().waitFor();
    await visit(first, "/keys");
    expect((await rowsOf(first)).join()).toContain("theirs");
    expect(said).toEqual([]);
    await first.context().close();
  });

  test("a copied cookie does what its role may at that moment, and nothing once its token is revoked", async () => {
    type Made = { id: string; token: string };
    const made = await operator.call<Made>("POST", "/operators", { name: "Copied", role: "support" });
    const { page: own, complaints: said } = await openPage(browser, url);
    await signIn(own, made.token, `/accounts/${tenant.account}`);
    const stolen = await browser.newContext({ baseURL: url, storageState: await own.context().storageState() });
    const thief = await stolen.newPage();
    await thief.goto(`/console/accounts/${tenant.account}`);
    await thief.getByRole("button", { name: "Block" }).waitFor();
    await operator.call("PATCH", `/operators/${made.id}`, { role: "read" });
    await thief.getByRole("button", { name: "Block" }).click();
    await thief.getByRole("dialog").getByRole("button", { name: "Block" }).click();
    await thief.getByText("Ask an owner for a token or key of another role.").waitFor();
    await operator.call("DELETE", `/operators/${made.id}`);
    await thief.getByRole("dialog").getByRole("button", { name: "Block" }).click();
    await thief.getByText("Your session has ended").waitFor();
    expect(await operator.call("GET", `/accounts/${tenant.account}`)).toMatchObject({ blocked: false });
    await own.getByRole("link", { name: "Accounts" }).click();
    await own.getByText("Your session has ended").waitFor();
    expect(said).toEqual([]);
    await Promise.all([stolen.close(), own.context().close()]);
  });

  test("a table of 10,000 rows is searched while one types, and its file has them all", async () => {
    const account = await operator.call<object>("GET", `/accounts/${tenant.account}`);
    const data = Array.from({ length: 10_000 }, (_, at) => ({ ...account, id: `many-${at}`, name: `Many ${at}` }));
    await answers((route) => route.fulfill({ json: { data, next_cursor: null } }));
    await visit(page, "/accounts");
    expect(await page.locator("tbody tr").count()).toBe(100);
    const file = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "CSV" }).click()]);
    const lines: string[] = [];
    for await (const part of await file[0].createReadStream()) lines.push(...String(part).split("\r\n"));
    expect(lines.join("\n").match(/many-\d/g)).toHaveLength(10_000);
    expect(file[0].suggestedFilename()).toBe("accounts.csv");
    const since = performance.now();
    await page.getByLabel("Search Accounts").pressSequentially("many-9999");
    await expect.poll(() => page.locator("tbody tr").count()).toBe(1);
    expect(performance.now() - since).toBeLessThan(allowedMs(3_000));
    await page.getByLabel("Search Accounts").fill("");
    await page.getByRole("button", { name: "Show more of 10,000 rows" }).click();
    await expect.poll(() => page.locator("tbody tr").count()).toBe(200);
  });

  test("a clipboard that refuses: the text is selected, and the button says so", async () => {
    const { page: own } = await openPage(browser, url);
    await own.addInitScript(() => Object.defineProperty(navigator, "clipboard", { value: undefined }));
    await signIn(own, tenant.key, "/quickstart");
    const base = own.getByLabel("Base URL");
    await base.getByRole("button", { name: "Copy" }).click();
    await base.getByText("Selected: copy it by hand").waitFor();
    expect(await own.evaluate(() => String(getSelection()))).toBe(`${url}/v1`);
    await own.context().close();
  });

  test("a change of many prices that is closed while it writes stops, and the page says how far it came", async () => {
    const prefix = unique("stopped");
    const models = [1, 2, 3].map((number) => `${prefix}-${number}`);
    for (const model of models) await operator.model(model);
    await visit(page, "/models");
    const written = Promise.withResolvers<void>();
    await page.route("**/prices", async (route) => {
      await written.promise;
      await route.continue();
    });
    await page.getByRole("button", { name: "Change many prices" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Models").fill(`${prefix}*`);
    await dialog.getByLabel("From (UTC)").fill("2037-01-01T00:00");
    await dialog.getByRole("button", { name: "Write these prices" }).click();
    await dialog.getByText("Closing this stops it").waitFor();
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    written.resolve();
    await alert("Closed while it wrote: 1 of 3 models have their new prices").waitFor();
    const rows = await Promise.all(
      models.map(
        async (model) => (await operator.call<{ history: object[] }>("GET", `/models/${model}`)).history.length,
      ),
    );
    expect(rows).toEqual([2, 1, 1]);
  });
});
