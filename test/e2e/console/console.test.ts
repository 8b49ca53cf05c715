/** The operator's console in a real browser: its session, its policy, its figures. */
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { closePages, hasBrowser, openBrowser, openPage, signIn, signInByHand } from "../../support/browser.ts";
import { eventually } from "../../support/eventually.ts";
import { unique } from "../../support/operator.ts";
import { ADMIN_TOKEN } from "../../support/process.ts";
import type { Tenant } from "../../support/tenant.ts";
import { world } from "../../support/world.ts";

const { operator, url } = world();
const HOUR_MS = 3_600_000;
interface Usage {
  readonly calls: number;
  readonly price_usd: number;
  readonly hour: string;
}

describe.runIf(hasBrowser)("the console", () => {
  let browser: Browser;
  let tenant: Tenant;
  let model: string;
  /** What a page would run if it took a name for markup. */
  const evil = `<img src=x onerror="console.error('ran')"><script>console.error('ran')</script>`;

  beforeAll(async () => {
    [browser, tenant] = await Promise.all([
      openBrowser(),
      operator.tenant({ name: evil }, { name: evil, role: "owner" }),
    ]);
    model = await operator.instance(tenant);
    for (let calls = 0; calls < 3; calls++) await tenant.chat({ model, max_tokens: 8 });
    await tenant.chat({ model: "no-such-model" });
    await eventually("the calls are reported", async () => {
      const { data } = await operator.call<{ data: unknown[] }>("GET", `/calls?account=${tenant.account}`);
      return data.length === 4;
    });
  });
  afterAll(() => closePages(browser));

  test("signing in sets a cookie that no script reads; signing out clears it", async () => {
    const { page, complaints } = await openPage(browser, url);
    await page.goto("/console");
    await page.getByLabel("Operator's token or virtual key").fill(`tg-op-${"x".repeat(38)}`);
    await page.keyboard.press("Enter");
    await page.getByRole("alert").waitFor();
    await signInByHand(page, ADMIN_TOKEN);
    const [cookie] = await page.context().cookies();
    expect(cookie).toMatchObject({ httpOnly: true, sameSite: "Strict", path: "/", domain: "localhost" });
    expect(cookie?.expires).toBeLessThan(Date.now() / 1_000 + 8 * 3_600 + 60);
    expect(JSON.stringify(cookie)).not.toContain(ADMIN_TOKEN);
    expect(await page.evaluate(() => document.cookie + JSON.stringify({ ...localStorage, ...sessionStorage }))).toBe(
      "{}",
    );
    // The cookie goes along everywhere on this host, and is no key anywhere but there.
    const statuses = await page.evaluate(async () => {
      const paths = ["/console/api/admin/accounts", "/admin/accounts", "/account", "/v1/models"];
      return Promise.all(paths.map(async (path) => (await fetch(path)).status));
    });
    expect(statuses).toEqual([200, 401, 401, 401]);
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("button", { name: "Sign in" }).waitFor();
    expect(await page.context().cookies()).toEqual([]);
    expect(complaints).toEqual([]);
    await page.context().close();
  });

  test("a page of another origin neither signs in nor reads with the session", async () => {
    const { page } = await openPage(browser, url);
    await signIn(page, ADMIN_TOKEN);
    // Another port is another origin, and the same site: the cookie itself would be sent.
    await page.goto(`${operator.sandbox.url}/`);
    const outcomes = await page.evaluate(
      async ({ at, key }) => {
        const status = (init: RequestInit, path: string) =>
          fetch(`${at}/console/api${path}`, { credentials: "include", ...init }).then(
            ({ status }) => status,
            () => "unreadable",
          );
        const body = JSON.stringify({ key });
        return [
          await status({}, "/admin/accounts"),
          await status({ method: "POST", body: "{}" }, "/admin/accounts"),
          await status({ method: "POST", body }, "/session"),
          await status({ mode: "no-cors" }, "/admin/accounts"),
        ];
      },
      { at: url, key: ADMIN_TOKEN },
    );
    expect(outcomes).toEqual(["unreadable", "unreadable", "unreadable", 0]);
    await page.context().close();
  });

  test("names that look like scripts are text, on each page of an account", async () => {
    const { page, complaints } = await openPage(browser, url);
    await signIn(page, ADMIN_TOKEN);
    const [account, alerts] = [`/accounts/${tenant.account}`, `/alerts?account=${tenant.account}&type=key.created`];
    for (const path of ["/accounts", account, `${account}/keys`, alerts]) {
      await page.goto(`/console${path}`);
      const named = page.getByText("onerror=").first();
      const more = page.getByRole("button", { name: "Show more" });
      // Other tests' accounts may fill the first pages.
      while (!(await named.isVisible())) await Promise.race([named.waitFor(), more.click()]);
    }
    expect(complaints).toEqual([]);
    await page.context().close();
  });

  test("a plot's sum is what the report says, and a click leads to the calls behind it", async () => {
    const { page, complaints } = await openPage(browser, url);
    await signIn(page, ADMIN_TOKEN, `?account=${tenant.account}`);
    const usage = async (by: string) => {
      const path = `/usage?account=${tenant.account}&group_by=${by}&from=-24h`;
      return (await operator.call<{ data: Usage[] }>("GET", path)).data;
    };
    const { calls = 0, price_usd = 0 } = (await usage("account"))[0] ?? {};
    expect(calls).toBeGreaterThanOrEqual(3);
    const figure = (label: string) => page.locator(".figures > div", { hasText: label }).locator("dd");
    await figure("Calls").waitFor();
    expect(await figure("Calls").getAttribute("title")).toBe(String(calls));
    expect(Number((await figure("Revenue").getAttribute("title"))?.slice(1))).toBe(price_usd);
    const plot = page.locator(".plot", { hasText: "Calls and errors" });
    expect(Number(await plot.getAttribute("data-sum"))).toBe(calls);
    // The hour of the calls may be over by now: it is one of 24 steps of the plot's width.
    const latest = (await usage("hour")).at(-1);
    const hoursAgo = Math.floor(Date.now() / HOUR_MS) - Math.floor(Date.parse(latest?.hour ?? "") / HOUR_MS);
    const over = plot.locator(".u-over");
    const all = await width(over);
    await over.click({ position: { x: all - 3 - (hoursAgo * all) / 24, y: 20 } });
    await page.waitForURL(/\/console\/calls\?account=/);
    const { search } = new URL(page.url());
    const { data: listed } = await operator.call<{ data: unknown[] }>("GET", `/calls${search}`);
    // Refused calls are listed, and no part of the report.
    expect(listed.length).toBeGreaterThanOrEqual(latest?.calls ?? Number.NaN);
    // The overview has tables too; its rows go when the list of calls comes.
    await expect.poll(() => page.locator("tbody tr").count()).toBe(listed.length);
    await page.locator("tbody a").first().click();
    await page.getByRole("heading", { name: "Proof of the charge" }).waitFor();
    expect(complaints).toEqual([]);
    await page.context().close();
  });

  test("the pages are served with their policy, below /console alone; the API's 404 stays JSON", async () => {
    const page = await fetch(`${url}/console/accounts/${unique("x")}`);
    expect(page.status).toBe(200);
    expect(page.headers.get("content-security-policy")).toMatch(/default-src 'none'.*frame-ancestors 'none'/);
    expect(page.headers.get("content-security-policy")).not.toContain("unsafe");
    expect(page.headers.get("x-content-type-options")).toBe("nosniff");
    const script = /src="(\/console\/[\w-]+\.js)"/.exec(await page.text())?.[1] ?? "";
    expect((await fetch(`${url}${script}`)).headers.get("cache-control")).toContain("immutable");
    for (const path of ["/consolex", "/console/none.js", "/nothing", "/v1/nothing", "/console/api/nothing"]) {
      const answer = await fetch(`${url}${path}`);
      expect([401, 404], path).toContain(answer.status);
      expect(await answer.text(), path).not.toContain("<html");
    }
  });
});

const width = async (of: { evaluate<T>(read: (element: Element) => T): Promise<T> }): Promise<number> =>
  of.evaluate((element) => element.clientWidth);
