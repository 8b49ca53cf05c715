/**
 * The pictures of the documents, made on demand (`SCREENSHOTS=1`): the demo with its made-up usage, whose books have to
 * agree with its reports before a picture is taken.
 */
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { OperatorClient } from "../../../client/operator.ts";
import { closePages, hasBrowser, openBrowser, openPage, signIn } from "../../support/browser.ts";
import { ADMIN_TOKEN, TollgateProcess } from "../../support/process.ts";

const IMAGES = join(import.meta.dirname, "../../../docs/img");
const wanted = hasBrowser && Boolean(process.env.SCREENSHOTS);

describe.runIf(wanted)("the demo with made-up usage", () => {
  let browser: Browser;
  let demo: TollgateProcess;
  let admin: OperatorClient;
  beforeAll(async () => {
    [browser, demo] = await Promise.all([
      openBrowser(),
      TollgateProcess.start({ args: ["--demo-data"], readyWithinMs: 600_000 }),
    ]);
    admin = new OperatorClient({ url: demo.url, token: ADMIN_TOKEN });
  }, 600_000);
  afterAll(async () => {
    await closePages(browser);
    await demo.stop();
  });

  test("its ledgers, events and sums agree to the nano-USD", async () => {
    for (const account of ["made-up-robotics", "made-up-support", "made-up-lab"]) {
      const { ok, problems, outbox } = await admin.audit(account);
      expect({ ok, problems, outbox }).toEqual({ ok: true, problems: [], outbox: 0 });
      const charged = (await admin.ledger(account)).filter(({ kind }) => kind === "charge");
      const booked = charged.reduce((sum, { amount_usd }) => sum - Math.round(amount_usd * 1e9), 0);
      const usage = await admin.call<{ data: { calls: number; price_usd: number }[] }>(
        "GET",
        `/usage?account=${account}&from=-15d`,
      );
      expect(Math.round((usage.data[0]?.price_usd ?? 0) * 1e9)).toBe(booked);
      expect(usage.data[0]?.calls).toBeGreaterThan(50);
    }
  });

  test.each([
    ["light", false],
    ["dark", true],
  ])("pictures, %s", async (name, dark) => {
    const { page, complaints } = await openPage(browser, demo.url, { dark });
    await signIn(page, ADMIN_TOKEN);
    for (const [path, file] of [
      ["?range=30d", "overview"],
      ["/calls?account=made-up-robotics", "calls"],
      ["/accounts/made-up-robotics", "account"],
    ] as const) {
      await page.goto(`/console${path}`);
      await page.locator('[aria-busy="true"], .loading').first().waitFor({ state: "detached" });
      await page.screenshot({ path: join(IMAGES, `console-${file}-${name}.png`) });
    }
    expect(complaints).toEqual([]);
    await page.context().close();
  });
});
