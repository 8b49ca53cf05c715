/**
 * The quarter of an hour of docs/console.md, by its own commands and by the pages that it names; how long each step took
 * is printed.
 */
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { closePages, hasBrowser, openBrowser, openPage, signInByHand } from "../../support/browser.ts";
import { unique } from "../../support/operator.ts";
import { ADMIN_TOKEN } from "../../support/process.ts";
import { world } from "../../support/world.ts";

const root = join(import.meta.dirname, "../../..");
const { url, operator } = world();
const run = promisify(execFile);

/** The commands of the section, as the reader fills them in. */
function commands(account: string, key: string): string[] {
  const text = readFileSync(join(root, "docs/console.md"), "utf8");
  const section = text.slice(text.indexOf("## A newcomer's quarter of an hour"), text.indexOf("## How it is built"));
  return [...section.matchAll(/^```sh\n([\s\S]*?)^```/gm)].map(([, block = ""]) =>
    block
      .replaceAll("http://localhost:8787", url)
      .replaceAll("sk-tg-...", key)
      .replaceAll("<ADMIN_TOKEN>", ADMIN_TOKEN)
      .replaceAll(/\bfirst\b/g, account),
  );
}
const shell = async (script = ""): Promise<string> => {
  const env = { ...process.env, TOLLGATE_URL: url };
  return (await run("bash", ["-c", `set -eo pipefail\n${script}`], { cwd: root, env })).stdout;
};

describe.runIf(hasBrowser)("a newcomer", () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await openBrowser();
  });
  afterAll(() => closePages(browser));

  test("makes a tenant with a budget, gives it a key, calls, sees it, raises its limit and reads its statement", async () => {
    const account = unique("first");
    const took: string[] = [];
    let atMs = Date.now();
    const done = (step: string) => {
      took.push(`${step} ${((Date.now() - atMs) / 1_000).toFixed(1)} s`);
      atMs = Date.now();
    };
    const { page, complaints } = await openPage(browser, url);
    await signInByHand(page, ADMIN_TOKEN);
    done("sign in");

    await page.getByRole("link", { name: "Accounts" }).click();
    await page.getByRole("button", { name: "New account" }).click();
    await page.getByLabel("Name", { exact: true }).fill("First tenant");
    await page.getByLabel("Id", { exact: true }).fill(account);
    await page.getByLabel("First credit, USD").fill("10");
    await page.getByLabel("Budget a month, USD").fill("5");
    await page.getByRole("button", { name: "Make the account" }).click();
    await page.waitForURL(new RegExp(`/accounts/${account}/keys`));
    done("tenant");

    await page.getByRole("button", { name: "New key" }).click();
    await page.getByLabel("Name", { exact: true }).fill("first key");
    await page.getByRole("button", { name: "Make the key" }).click();
    const secret = page.locator("dialog pre");
    const key = ((await secret.textContent()) ?? "").trim();
    await page.getByRole("button", { name: "Close" }).click();
    done("key");

    const [call, raise, ...others] = commands(account, key);
    expect(others).toEqual([]);
    expect(JSON.parse(await shell(call))).toMatchObject({ object: "chat.completion" });
    done("call");

    await page.goto(`/console/calls?account=${account}&live=1`);
    await page
      .getByRole("row", { name: /completed/ })
      .getByRole("link")
      .first()
      .click();
    await page.getByRole("heading", { name: "Proof of the charge" }).waitFor();
    done("see it");

    const printed = await shell(raise);
    expect(await operator.call("GET", `/accounts/${account}`)).toMatchObject({ max_budget: 25 });
    expect(printed).toMatch(/max_budget/);
    expect(printed).toMatch(/closing/);
    done("limit and statement");
    process.stdout.write(`newcomer: ${took.join(", ")}\n`);
    expect(complaints).toEqual([]);
    await page.context().close();
  });
});
