/** A real browser on the console. Each page collects what the browser complains of: a test ends with none of it. */
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import { chromiumPath } from "../../scripts/chromium.ts";

const FLAGS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

export const hasBrowser = chromiumPath() !== undefined;

/** Kept for the files that this process runs one after the other: a start takes seconds. It ends with the process. */
let kept: Promise<Browser> | undefined;

/** Close the pages that you open, not the browser. */
export function openBrowser(): Promise<Browser> {
  const executablePath = chromiumPath();
  if (executablePath === undefined) throw new Error("no Chromium");
  kept ??= chromium.launch({ executablePath, args: FLAGS });
  return kept;
}

/** What a file opened. */
export async function closePages(browser: Browser): Promise<void> {
  await Promise.all(browser.contexts().map((context) => context.close()));
}

const origins = new WeakMap<BrowserContext, string>();

export interface ConsolePage {
  readonly page: Page;
  /** Errors of scripts, and what the content security policy stopped. */
  readonly complaints: string[];
}

/** A browser of somebody's own: no cookie, nothing kept. */
export async function openPage(
  browser: Browser,
  url: string,
  options: { width?: number; dark?: boolean } = {},
): Promise<ConsolePage> {
  const { width = 1280, dark = false } = options;
  const context = await browser.newContext({
    baseURL: url,
    viewport: { width, height: 860 },
    colorScheme: dark ? "dark" : "light",
    permissions: ["clipboard-read", "clipboard-write"],
  });
  context.setDefaultTimeout(15_000);
  origins.set(context, new URL(url).origin);
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("console", (message) => {
    // What the API refuses, the browser reports as a failed resource.
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) {
      complaints.push(message.text());
    }
  });
  await page.addInitScript(() => {
    addEventListener("securitypolicyviolation", ({ violatedDirective, blockedURI }) =>
      console.error(`policy: ${violatedDirective} ${blockedURI}`),
    );
  });
  return { page, complaints };
}

/** As the page does it, without its form: one page less to load. */
export async function signIn(page: Page, key: string, path = ""): Promise<void> {
  const context = page.context();
  const headers = { origin: origins.get(context) ?? "" };
  const answer = await context.request.post("/console/api/session", { data: { key }, headers });
  if (!answer.ok()) throw new Error(`signing in ends with ${answer.status()}: ${await answer.text()}`);
  await page.goto(`/console${path}`);
  // Where the screen is small, the menu is closed.
  await page.locator("header.side").waitFor();
}

export async function signInByHand(page: Page, key: string, path = ""): Promise<void> {
  await page.goto(`/console${path}`);
  await page.getByLabel("Operator's token or virtual key").fill(key);
  await page.getByRole("button", { name: "Sign in" }).click();
  // Where the screen is small, the menu is closed.
  await page.locator("header.side").waitFor();
}
