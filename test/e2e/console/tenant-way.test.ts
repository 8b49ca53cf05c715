/**
 * A tenant's whole way in a real browser, without its operator; and every page as assistive software and small screens
 * find it.
 */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { hasBrowser, openBrowser, openPage, signIn } from "../../support/browser.ts";
import { Operator } from "../../support/operator.ts";
import { ADMIN_TOKEN, TollgateProcess } from "../../support/process.ts";
import type { Tenant } from "../../support/tenant.ts";

// A process of its own: with what other tests make, each list is as long as lists get, and axe looks at every cell.
const tollgate = await TollgateProcess.start();
afterAll(() => tollgate.stop());
const operator = new Operator(tollgate);
const { url } = tollgate;
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

interface Violation {
  readonly id: string;
  readonly impact: string | null;
  readonly nodes: readonly { readonly html: string }[];
}

interface Axe {
  readonly axe: { run(options: object): Promise<{ violations: Violation[] }> };
}

/** What keeps people out, by axe's rules. It is run by the test, not by the page, so the page's policy stays. */
async function barriers(page: Page): Promise<string[]> {
  await page.evaluate(AXE);
  const found = await page.evaluate(() => (globalThis as unknown as Axe).axe.run({ resultTypes: ["violations"] }));
  return found.violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" ")}`);
}

/** The page shows its data. */
async function shown(page: Page): Promise<void> {
  await page.locator("h1").waitFor();
  await page.waitForFunction(() => !document.querySelector('[aria-busy="true"], .loading'));
}

/** How many pixels of the page stand beside the screen. */
const beside = (page: Page): Promise<number> =>
  page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);

describe.runIf(hasBrowser)("a tenant", () => {
  let browser: Browser;
  let tenant: Tenant;
  let model: string;
  beforeAll(async () => {
    [browser, tenant] = await Promise.all([openBrowser(), operator.tenant({}, { role: "owner" })]);
    model = await operator.instance(tenant);
  });
  afterAll(() => browser.close());

  test("signs in, makes a key, tries it, sees the call and its price, and revokes the key, which ends its session", async () => {
    const owner = await openPage(browser, url);
    await signIn(owner.page, tenant.key, "/keys");
    await owner.page.getByRole("button", { name: "New key" }).click();
    await owner.page.getByLabel("Name").fill("mine");
    await owner.page.getByRole("button", { name: "Make the key" }).click();
    const secret = (await owner.page.locator("dialog pre").textContent())?.trim() ?? "";
    expect(secret).toMatch(/^sk-tg-/);
    await owner.page.getByRole("button", { name: "Close" }).click();

    const mine = await openPage(browser, url);
    await signIn(mine.page, secret, "/playground");
    await mine.page.getByLabel("Model").selectOption(model);
    await mine.page.getByLabel("Message").fill("Say hello, please.");
    await mine.page.getByLabel("Longest answer, tokens").fill("24");
    expect(await mine.page.locator(".code pre").textContent()).toContain("Say hello, please.");
    await mine.page.getByRole("button", { name: "Send" }).click();
    const cost = mine.page.locator(".cost dd").nth(1);
    await expect.poll(() => cost.textContent(), { timeout: 20_000 }).toMatch(/^\$/);
    expect(((await mine.page.getByRole("log").textContent()) ?? "").length).toBeGreaterThan(10);
    expect(await mine.page.locator(".cost dd").first().textContent()).toMatch(/\d (ms|s)$/);
    const price = (await cost.textContent()) ?? "";
    expect(Number(price.slice(1))).toBe(-Number((await tenant.charges())[0]?.amount_usd));

    await mine.page.locator(".cost a").click();
    const row = mine.page.locator("tbody tr").first();
    await row.waitFor();
    expect(await row.textContent()).toContain(price);

    await owner.page.getByRole("row", { name: /mine/ }).getByRole("button", { name: "Manage" }).click();
    await owner.page.getByRole("button", { name: "Revoke" }).click();
    await owner.page.getByRole("dialog", { name: "Revoke mine?" }).getByRole("button", { name: "Revoke" }).click();
    await owner.page.locator("dialog").first().waitFor({ state: "detached" });
    await mine.page.goto("/console/balance");
    await mine.page.getByRole("button", { name: "Sign in" }).waitFor();
    expect([...owner.complaints, ...mine.complaints]).toEqual([]);
    await Promise.all([owner.page.context().close(), mine.page.context().close()]);
  });

  test("has its webhook made, shown once, disabled and deleted, and sees no event of the operator's", async () => {
    const { page, complaints } = await openPage(browser, url);
    await signIn(page, tenant.key, "/webhooks");
    await page.getByRole("button", { name: "New webhook" }).click();
    expect(await page.getByLabel("margin.negative").count()).toBe(0);
    await page.getByLabel("URL").fill("https://127.0.0.1/");
    await page.getByLabel("balance.low").check();
    await page.getByRole("button", { name: "Make the webhook" }).click();
    await page.getByRole("alert").waitFor();
    await page.getByLabel("URL").fill("https://hooks.example.com/console");
    await page.getByRole("button", { name: "Make the webhook" }).click();
    const secret = page.getByRole("dialog", { name: "The secret that signs its messages" });
    expect(await secret.locator("pre").textContent()).toMatch(/^whsec_/);
    await secret.getByRole("button", { name: "Close" }).click();
    const row = page.getByRole("row", { name: /hooks\.example\.com/ });
    await row.getByRole("button", { name: "Disable" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Disable" }).click();
    await row.getByText("disabled: owner").waitFor();
    await row.getByRole("button", { name: "Deliveries" }).click();
    await page.getByText("Nothing was sent in 30 days.").waitFor();
    await page.getByRole("dialog").getByRole("button", { name: "Close" }).click();
    await row.getByRole("button", { name: "Delete" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await row.waitFor({ state: "detached" });
    expect(complaints).toEqual([]);
    await page.context().close();
  });

  test("stops a stream: what had come is charged, and the gateway knows that the client left", async () => {
    const { page, complaints } = await openPage(browser, url);
    // The page's own call, answered slowly enough to be stopped.
    const slow = { sandbox_output_tokens: 400, sandbox_frame_delay_ms: 50, max_tokens: 400 };
    await page.route("**/chat/completions", (route) =>
      route.continue({ postData: JSON.stringify({ ...route.request().postDataJSON(), ...slow }) }),
    );
    await signIn(page, tenant.key, "/playground");
    await page.getByLabel("Model").selectOption(model);
    await page.getByLabel("Message").fill("word");
    await page.getByRole("button", { name: "Send" }).click();
    await expect.poll(async () => ((await page.getByRole("log").textContent()) ?? "").length).toBeGreaterThan(0);
    await page.getByRole("button", { name: "Stop" }).click();
    await page.getByText("Stopped. What had come by then is charged.").waitFor();
    const outcomes = async () =>
      (
        await operator.call<{ data: { outcome: string }[] }>(
          "GET",
          `/calls?account=${tenant.account}&outcome=client_gone`,
        )
      ).data.length;
    await expect.poll(outcomes, { timeout: 20_000 }).toBe(1);
    expect(complaints).toEqual([]);
    await page.context().close();
  });

  const OF_OPERATOR = [
    "",
    "/accounts",
    "/accounts/@",
    "/accounts/@/keys",
    "/accounts/@/teams",
    "/accounts/@/ledger",
    "/accounts/@/statement",
    "/accounts/@/audit",
    "/keys",
    "/calls",
    "/models",
    "/models/llama-7b",
    "/upstreams",
    "/upstreams/sandbox",
    "/compute",
    "/alerts",
    "/operators",
    "/changes",
  ];
  const OF_TENANT = ["", "/calls", "/playground", "/quickstart", "/keys", "/balance", "/webhooks", "/compute"];

  test.each([
    ["operator", OF_OPERATOR, false],
    ["operator, dark", ["", "/calls", "/accounts/@", "/models"], true],
    ["tenant", OF_TENANT, false],
    ["tenant, dark", ["", "/playground"], true],
  ] as const)("%s: axe finds nothing serious on any page, and each fits 375 px", async (who, paths, dark) => {
    const { page, complaints } = await openPage(browser, url, { dark, width: 375 });
    await page.goto("/console");
    await page.getByRole("button", { name: "Sign in" }).waitFor();
    expect(await barriers(page)).toEqual([]);
    await signIn(page, who.startsWith("operator") ? ADMIN_TOKEN : tenant.key);
    for (const path of paths) {
      await page.goto(`/console${path.replace("@", tenant.account)}`);
      await shown(page);
      expect(await barriers(page), path).toEqual([]);
      expect(await beside(page), path).toBeLessThanOrEqual(0);
    }
    expect(complaints).toEqual([]);
    await page.context().close();
  });
});
