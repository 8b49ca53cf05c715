/** What people do by hand in a real browser: zoom, change prices, drain, stop machines. And how soon the page is there. */
import { gzipSync } from "node:zlib";
import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { closePages, hasBrowser, openBrowser, openPage, signIn } from "../../support/browser.ts";
import { Renter } from "../../support/compute/renter.ts";
import { eventually } from "../../support/eventually.ts";
import { IN_FULL } from "../../support/in-full.ts";
import { unique } from "../../support/operator.ts";
import { visit } from "../../support/page-checks.ts";
import { ADMIN_TOKEN } from "../../support/process.ts";
import { allowedMs } from "../../support/slowness.ts";
import type { Tenant } from "../../support/tenant.ts";
import { world } from "../../support/world.ts";

const at = world();
const { operator, url, sandboxUrl } = at;
const HOUR_MS = 3_600_000;
const MOST_BYTES = 100_000;
const READY_MS = 300;

interface Usage {
  readonly data: readonly { readonly calls: number }[];
}

describe.runIf(hasBrowser)("the console, by hand", () => {
  let browser: Browser;
  let tenant: Tenant;
  let page: Page;
  let complaints: string[];

  beforeAll(async () => {
    [browser, tenant] = await Promise.all([openBrowser(), operator.tenant({}, { role: "owner" })]);
    ({ page, complaints } = await openPage(browser, url));
    await signIn(page, ADMIN_TOKEN, "/nowhere");
    const model = await operator.instance(tenant);
    for (let calls = 0; calls < 3; calls++) await tenant.chat({ model, max_tokens: 8 });
    await eventually("the calls are reported", async () => (await callsIn("?from=-24h")) === 3);
  });
  afterEach(() => expect(complaints).toEqual([]));
  afterAll(() => closePages(browser));

  const callsIn = async (range: string): Promise<number> =>
    (await operator.call<Usage>("GET", `/usage${range}&account=${tenant.account}`)).data[0]?.calls ?? 0;

  test("the first page comes in under 100 KB gzipped, and takes input within 300 ms", async () => {
    const { page, complaints: said } = await openPage(browser, url);
    await signIn(page, ADMIN_TOKEN, `?account=${tenant.account}`);
    const network = await page.context().newCDPSession(page);
    await network.send("Network.enable");
    await network.send("Network.setCacheDisabled", { cacheDisabled: true });
    const bodies: Promise<number>[] = [];
    page.on("response", (response) => bodies.push(response.body().then(gzipped, () => 0)));
    await noteWhenReady(page);
    await page.goto(`/console?account=${tenant.account}`);
    await page.locator(".plot").first().waitFor();
    await page.waitForLoadState("networkidle");
    const sizes = await Promise.all(bodies);
    // Cloudflare's edge compresses what the local server sends plain.
    const bytes = sizes.reduce((sum, size) => sum + size, 0);
    // In short the best of three: the machine has other things to do, and the first load starts what had no use before.
    const tookMs: number[] = [];
    for (let loads = 0; loads < (IN_FULL ? 7 : 3); loads++) {
      await page.reload();
      await page.locator(".plot").first().waitFor();
      tookMs.push(await readyMs(page));
    }
    tookMs.sort((a, b) => a - b);
    const took = tookMs[IN_FULL ? 3 : 0] ?? 0;
    process.stdout.write(
      `console: ${(bytes / 1_000).toFixed(1)} KB gzipped in ${sizes.length} answers, input after ${took.toFixed(0)} ms\n`,
    );
    expect(sizes.length).toBeGreaterThan(4);
    expect(bytes).toBeLessThan(MOST_BYTES);
    expect(took).toBeGreaterThan(0);
    expect(took).toBeLessThan(IN_FULL ? READY_MS : allowedMs(READY_MS));
    expect(said).toEqual([]);
    await page.context().close();
  });

  test("a stretch dragged over a plot becomes the page's range, with all of its last point", async () => {
    await visit(page, `?account=${tenant.account}`);
    const plot = page.locator(".plot", { hasText: "Calls and errors" });
    await drag(page, 0.5, 0.999);
    await page.waitForURL(/[?&]from=/);
    const query = new URL(page.url()).searchParams;
    const [from, to] = [Date.parse(query.get("from") ?? ""), Date.parse(query.get("to") ?? "")];
    expect(new URL(page.url()).pathname).toBe("/console");
    expect(to).toBeGreaterThan(Date.now() - HOUR_MS);
    expect((to - from) / HOUR_MS).toBeGreaterThan(10);
    await page.getByText(" to ", { exact: false }).first().waitFor();
    await expect.poll(() => plot.getAttribute("data-sum")).toBe("3");
    expect(await callsIn(`?from=${from}&to=${to}`)).toBe(3);
    // Where nothing was, nothing is.
    await page.getByRole("button", { name: "24 h", exact: true }).click();
    await page.waitForURL(/range=24h/);
    // Its data come anew, and the plot with them.
    await page.reload();
    await drag(page, 0.1, 0.4);
    await page.waitForURL(/[?&]from=/);
    await expect.poll(() => plot.getAttribute("data-sum")).toBe("0");
  });

  test("many prices are shown before they are written, and written for the moment that was named", async () => {
    const prefix = unique("bulk");
    const models = [`${prefix}-a`, `${prefix}-b`];
    for (const model of models) await operator.model(model);
    await visit(page, "/models");
    await page.getByRole("button", { name: "Change many prices" }).click();
    const dialog = page.getByRole("dialog", { name: "Change many prices" });
    await dialog.getByLabel("Models").fill(`${prefix}*`);
    await dialog.getByLabel("Percent").fill("10");
    await dialog.getByLabel("From (UTC)").fill("2037-01-01T00:00");
    await dialog.getByRole("heading", { name: "What would change: 2 models" }).waitFor();
    expect(await dialog.locator(".preview").textContent()).toContain("input tokens: $1.00 to $1.10");
    await dialog.getByRole("button", { name: "Write these prices" }).click();
    await dialog.waitFor({ state: "detached" });
    for (const model of models) {
      const { history } = await operator.call<{ history: { from: string; prices: object }[] }>(
        "GET",
        `/models/${model}`,
      );
      expect(history).toHaveLength(2);
      expect(history).toContainEqual(
        expect.objectContaining({
          from: "2037-01-01T00:00:00.000Z",
          prices: expect.objectContaining({ input_tokens: expect.objectContaining({ cost_usd: 0.5, price_usd: 1.1 }) }),
        }),
      );
    }
  });

  test("an upstream is checked, drained and taken back; the last target of an alias is not drained", async () => {
    const [first, second, dead] = [
      await operator.upstream(sandboxUrl),
      await operator.upstream(sandboxUrl),
      await operator.upstream("http://127.0.0.1:9"),
    ];
    const alias = await operator.alias(tenant, [
      { upstream: first, model: "llama-7b" },
      { upstream: second, model: "llama-7b" },
    ]);
    const drained = async () =>
      (
        await operator.call<{ targets: { drain: boolean }[] }>("GET", `/aliases/${alias}?account=${tenant.account}`)
      ).targets.map(({ drain }) => drain);
    await visit(page, `/upstreams/${dead}`);
    const check = page.getByRole("button", { name: "Check it now" });
    await check.click();
    await page.locator('[role="status"] .badge.bad').waitFor();
    await visit(page, `/upstreams/${first}`);
    await check.click();
    await page.getByText(/^answers after \d/).waitFor();
    const row = page.getByRole("row", { name: new RegExp(alias) });
    await row.getByRole("button", { name: "Drain" }).click();
    await row.getByText("drained").waitFor();
    expect(await drained()).toEqual([true, false]);
    await visit(page, `/upstreams/${second}`);
    await row.getByRole("button", { name: "Drain" }).click();
    await page.getByText("must have a target that is not drained").waitFor();
    expect(await drained()).toEqual([true, false]);
    await visit(page, `/upstreams/${first}`);
    await row.getByRole("button", { name: "Take calls again" }).click();
    await row.getByText("takes calls").waitFor();
    expect(await drained()).toEqual([false, false]);
  });

  test("rented machines: the tenant ends one of its own, the operator stops another", async () => {
    const renter = await Renter.make(at, 100);
    const launched = await Promise.all([renter.launch({ name: "mine" }), renter.launch({ name: "theirs" })]);
    const [mine = 0, theirs = 0] = launched.map(({ body }) => body.id);
    await renter.until(mine, "running");
    const own = await openPage(browser, url);
    await signIn(own.page, renter.tenant.key, "/compute");
    const row = own.page.getByRole("row", { name: /mine/ });
    expect(await row.textContent()).toContain("$3");
    await row.getByRole("button", { name: "Terminate" }).click();
    await own.page.getByRole("dialog", { name: "Terminate mine?" }).getByRole("button", { name: "Terminate" }).click();
    await row.getByText(/terminat/).waitFor();
    const asked = async () => {
      const executions = await renter.sandbox.executions(renter.seat);
      return executions.flatMap(({ end_asked_ms }) => end_asked_ms ?? []).length;
    };
    await eventually("the service was asked to end one", async () => (await asked()) === 1);
    expect((await renter.get(mine)).status).toMatch(/^terminat/);
    expect((await renter.get(theirs)).status).not.toMatch(/^terminat/);

    await visit(page, "/compute");
    const there = page
      .locator("section", { has: page.getByRole("heading", { name: renter.seat, exact: true }) })
      .last();
    await there.getByRole("button", { name: "Read its lists now" }).click();
    type Seen = { upstream: string; seen: { id: number | null; name: string }[] };
    const { data } = await operator.call<{ data: Seen[] }>("GET", "/compute");
    const named = data.find(({ upstream }) => upstream === renter.seat)?.seen.find(({ id }) => id === theirs)?.name;
    await there
      .getByRole("row")
      .filter({ hasText: named ?? "?" })
      .getByRole("button", { name: "Stop" })
      .click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("button", { name: "Stop" }).click();
    await dialog.waitFor({ state: "detached" });
    await eventually("the service was asked to end the other", async () => (await asked()) === 2);
    expect((await renter.get(theirs)).status).toMatch(/^terminat/);

    // One that does not run yet cannot be ended: what to do stands in the question, and in the refusal.
    const soon = { ...(await renter.get(theirs)), id: 7, name: "soon", status: "pending" };
    await own.page.route("**/gpu-instances", (route) => route.fulfill({ json: [soon] }));
    const message = "This instance is still pending. Poll it, and send this again when it is running.";
    await own.page.route("**/terminate", (route) => route.fulfill({ status: 409, json: { error: message } }));
    await visit(own.page, "");
    await visit(own.page, "/compute");
    await own.page.getByRole("button", { name: "Terminate" }).click();
    await own.page.getByText("Wait until its status here is running").waitFor();
    await own.page.getByRole("dialog").getByRole("button", { name: "Terminate" }).click();
    await own.page.getByRole("alert").filter({ hasText: message }).waitFor();
    expect(own.complaints).toEqual([]);
    await own.page.context().close();
  });
});

const gzipped = (body: Buffer): number => gzipSync(body).length;

/** Notes when the page has its menu and its title, which take input from then on. */
const noteWhenReady = (page: Page): Promise<unknown> =>
  page.addInitScript(() => {
    const seen = new MutationObserver(() => {
      if (!document.querySelector("nav a") || !document.querySelector("main h1")) return;
      performance.mark("ready");
      seen.disconnect();
    });
    seen.observe(document, { childList: true, subtree: true });
  });
const readyMs = (page: Page): Promise<number> =>
  page.evaluate(() => performance.getEntriesByName("ready")[0]?.startTime ?? Number.POSITIVE_INFINITY);

/** From one part of the plot's width to another. */
async function drag(page: Page, from: number, to: number): Promise<void> {
  const over = page.locator(".plot", { hasText: "Calls and errors" }).locator(".u-over");
  await over.scrollIntoViewIfNeeded();
  const box = await over.boundingBox();
  if (!box) throw new Error("no plot");
  const y = box.y + box.height / 2;
  await page.mouse.move(box.x + box.width * from, y);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * ((from + to) / 2), y, { steps: 3 });
  await page.mouse.move(box.x + box.width * to, y, { steps: 3 });
  await page.mouse.up();
}
