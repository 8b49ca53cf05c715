/** A tenant's whole way in a real browser, without its operator. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { closePages, hasBrowser, openBrowser, openPage, signIn, signInByHand } from "../../support/browser.ts";
import type { Tenant } from "../../support/tenant.ts";
import { world } from "../../support/world.ts";

const { operator, url } = world();
const run = promisify(execFile);

describe.runIf(hasBrowser)("a tenant", () => {
  let browser: Browser;
  let tenant: Tenant;
  let model: string;
  beforeAll(async () => {
    [browser, tenant] = await Promise.all([openBrowser(), operator.tenant({}, { role: "owner" })]);
    model = await operator.instance(tenant);
  });
  afterAll(() => closePages(browser));

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
    await signInByHand(mine.page, secret, "/playground");
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

  test("copies the quickstart, and what it copied works in a shell", async () => {
    const { page, complaints } = await openPage(browser, url);
    await signIn(page, tenant.key, "/quickstart");
    await page.getByLabel("Model").selectOption(model);
    const copied = async (label: string) => {
      const block = page.getByLabel(label, { exact: true });
      await block.getByRole("button", { name: "Copy" }).click();
      await block.getByText("Copied").waitFor();
      const text = await page.evaluate(() => navigator.clipboard.readText());
      expect(text).toBe(await block.locator("pre").textContent());
      return text;
    };
    const key = (await copied("Key in the environment")).replace("sk-tg-...", tenant.key);
    expect(await copied("Base URL")).toBe(`${url}/v1`);
    const { stdout } = await run("bash", ["-ec", `${key}\n${await copied("Example in curl")}`]);
    expect(stdout).toContain(`"model":${JSON.stringify(model)}`);
    expect(stdout.trimEnd().endsWith("data: [DONE]")).toBe(true);
    for (const language of ["Python", "TypeScript"]) {
      await page.getByRole("button", { name: language }).click();
      const text = await copied(`Example in ${language}`);
      for (const part of [model, `${url}/v1`, "TOLLGATE_KEY"]) expect(text).toContain(part);
    }
    expect(complaints).toEqual([]);
    await page.context().close();
  });
});
