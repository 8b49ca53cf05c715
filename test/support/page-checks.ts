/** What a page of the console has to stand: what axe finds, what fits, what moves while data come, what tables do. */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Page } from "playwright-core";
import { IN_FULL } from "./in-full.ts";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

interface Violation {
  readonly id: string;
  readonly impact: string | null;
  readonly nodes: readonly { readonly html: string }[];
}
interface InPage {
  readonly axe?: { run(options: object): Promise<{ violations: Violation[] }> };
  /** Layout shifts since they were last asked for. */
  moved?: { value: number; what: string }[];
}

/** Answers come late, as over a network, so that a page is seen before its data; and what moves then is noted. */
export const watchShifts = (page: Page, lateMs = 40): Promise<void> =>
  page
    .addInitScript((late) => {
      const [at, asked] = [globalThis as InPage, fetch];
      globalThis.fetch = async (...given) => {
        await new Promise((resolve) => setTimeout(resolve, late));
        return asked(...given);
      };
      at.moved = [];
      interface Shift extends PerformanceEntry {
        readonly value: number;
        readonly hadRecentInput: boolean;
        readonly sources: readonly { readonly node: Node | null }[];
      }
      new PerformanceObserver((list) => {
        for (const { value, hadRecentInput, sources } of list.getEntries() as Shift[]) {
          const what = sources.map(({ node }) => (node instanceof Element ? node.outerHTML.slice(0, 60) : "text"));
          if (!hadRecentInput) at.moved?.push({ value, what: what.join(" | ") });
        }
      }).observe({ type: "layout-shift", buffered: true });
    }, lateMs)
    .then(() => undefined);

/** Of nothing that a person would see: a score of 0.1 is what others call good. */
const STILL = 0.005;

/** What moved since the last time, where it is worth a word. */
export async function moved(page: Page): Promise<string[]> {
  const shifts = await page.evaluate(async () => {
    await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
    const at = globalThis as InPage;
    const found = at.moved ?? [];
    at.moved = [];
    return found;
  });
  const score = shifts.reduce((sum, { value }) => sum + value, 0);
  return score < STILL ? [] : shifts.map(({ value, what }) => `moved ${value.toFixed(4)}: ${what}`);
}

/** Goes to a page as a link does, without loading the console anew, and waits until its data are there. */
export const visit = (page: Page, path: string): Promise<void> =>
  page.evaluate(async (to) => {
    const frame = () => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
    history.pushState(null, "", to);
    dispatchEvent(new PopStateEvent("popstate"));
    const until = performance.now() + 15_000;
    for (let still = 0; still < 2; still++) {
      await frame();
      if (!document.querySelector("main h1") || document.querySelector('[aria-busy="true"], .loading')) still = 0;
      if (performance.now() > until) throw new Error(`${to} does not come`);
    }
  }, `/console${path}`);

/** What keeps people out, by axe's rules. It is run by the test, not by the page, so the page's policy stays. */
export async function barriers(page: Page, rules?: readonly string[]): Promise<string[]> {
  if (!(await page.evaluate(() => "axe" in globalThis))) await page.evaluate(AXE);
  const found = await page.evaluate(
    async (only) =>
      (globalThis as InPage).axe?.run({
        ...{ resultTypes: ["violations"], selectors: false, preload: false, iframes: false },
        ...(only && { runOnly: [...only] }),
      }),
    rules,
  );
  if (!found) throw new Error("no axe");
  return found.violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" ")}`);
}

/** How many pixels of the page stand beside the screen. */
export const beside = (page: Page): Promise<number> =>
  page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);

/** Characters that turn text around, where they stand as they are. */
export const turned = (page: Page): Promise<string[]> =>
  page.evaluate(() => (document.body.textContent ?? "").match(/.{0,20}[\u202a-\u202e\u2066-\u2069]/gu) ?? []);

export interface TableSeen {
  readonly caption: string;
  readonly rows: number;
  readonly problems: string[];
}

/**
 * Each table of the page: its file has the rows that it shows, in their order; each head sorts it both ways and says
 * so (in short: the first and the last); what is searched for stands in the address. It ends sorted and searched.
 */
export const tryTables = (page: Page): Promise<TableSeen[]> =>
  page.evaluate(async (everyHead) => {
    const rendered = () => new Promise((resolve) => setTimeout(resolve));
    const files: Blob[] = [];
    const [make, click] = [URL.createObjectURL, HTMLAnchorElement.prototype.click];
    URL.createObjectURL = (blob) => {
      files.push(blob as Blob);
      return make(blob);
    };
    HTMLAnchorElement.prototype.click = () => undefined;
    const cellsOf = (text: string): string[][] =>
      text
        .split("\r\n")
        .slice(0, -1)
        .map((line) =>
          [...line.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g)].map(([, quoted, bare]) =>
            (quoted?.replaceAll('""', '"') ?? bare ?? "").replace(/^'(?=[=+\-@\t\r])/, ""),
          ),
        );
    // An amount may be shown with all of its digits in its title, a name of the API's in words.
    const says = (cell: string, value: string): boolean =>
      value === "" ? /^–?$/.test(cell) : [value, value.replaceAll("_", " ")].includes(cell) || amount(cell) === +value;
    const amount = (cell: string): number => Number(cell.replace("$", "").replaceAll(",", ""));
    const sorted = (cells: readonly string[]): boolean => {
      const numbers = cells.every((cell) => cell === "" || !Number.isNaN(Number(cell)));
      const asNumbers = (a: string, b: string) =>
        a === "" || b === "" ? Number(a !== "") - Number(b !== "") : +a - +b;
      const pairs = cells.slice(1).map((cell, at) => [cells[at] ?? "", cell] as const);
      return (
        pairs.every(([a, b]) => (a === "" ? true : b === "" ? false : a.localeCompare(b) <= 0)) ||
        (numbers && pairs.every(([a, b]) => asNumbers(a, b) <= 0))
      );
    };
    const look = async (index: number): Promise<TableSeen> => {
      const problems: string[] = [];
      const table = () => document.querySelectorAll("section.table")[index] as HTMLElement;
      const shown = () =>
        [...table().querySelectorAll("tbody tr")].map((row) =>
          [...row.querySelectorAll("td")].map(
            (cell) => cell.querySelector("[title]")?.getAttribute("title") ?? cell.textContent ?? "",
          ),
        );
      const exported = async (): Promise<string[][]> => {
        [...table().querySelectorAll("button")].find(({ textContent }) => textContent === "CSV")?.click();
        const file = files.pop();
        return file ? cellsOf(await file.text()).slice(1) : [["no file"]];
      };
      const compare = async (when: string): Promise<string[][]> => {
        const [file, rows] = [await exported(), shown()];
        if (file.length < rows.length || (rows.length < 100 && file.length !== rows.length))
          problems.push(`${when}: ${rows.length} rows, ${file.length} in the file`);
        const same = (column: number) => rows.every((row, at) => says(row[column] ?? "", file[at]?.[column] ?? ""));
        if (rows.length > 0 && !rows[0]?.some((_, column) => same(column)))
          problems.push(`${when}: the file has other rows`);
        return file;
      };
      const before = await compare("as it comes");
      const heads = () => [...table().querySelectorAll<HTMLElement>("th")];
      const sortable = [...heads().entries()].filter(([, head]) => head.querySelector("button"));
      for (const [column, head] of everyHead ? sortable : [...sortable.slice(0, 1), ...sortable.slice(-1)]) {
        const button = () => heads()[column]?.querySelector("button");
        for (const direction of ["descending", "ascending"]) {
          button()?.click();
          await rendered();
          const said = heads()[column]?.getAttribute("aria-sort");
          const values = (await compare(`${head.textContent} ${direction}`)).map((row) => row[column] ?? "");
          if (said !== direction) problems.push(`${head.textContent}: aria-sort is ${said}, not ${direction}`);
          if (!sorted(direction === "ascending" ? values : values.reverse()))
            problems.push(`${head.textContent} ${direction}: ${values.slice(0, 5).join(" ")}`);
        }
      }
      const search = table().querySelector<HTMLInputElement>('input[type="search"]');
      const wanted = before[0]?.find((cell) => /\w{2}/.test(cell)) ?? "nothing has this";
      if (search) search.value = wanted;
      search?.dispatchEvent(new Event("input", { bubbles: true }));
      await rendered();
      if (![...new URLSearchParams(location.search).values()].includes(wanted))
        problems.push(`the search stands not in ${location.search}`);
      const found = await compare("searched");
      const has = (row: string[]) => row.some((cell) => cell.toLowerCase().includes(wanted.toLowerCase()));
      if (found.length !== before.filter(has).length) problems.push(`${found.length} rows have ${wanted}`);
      return { caption: table().querySelector("caption")?.textContent ?? "", rows: before.length, problems };
    };
    try {
      const count = document.querySelectorAll("section.table").length;
      const seen: TableSeen[] = [];
      for (let index = 0; index < count; index++) seen.push(await look(index));
      return seen;
    } finally {
      [URL.createObjectURL, HTMLAnchorElement.prototype.click] = [make, click];
    }
  }, IN_FULL);

/** Which rows the tables show: the first cell of each says it, the others may change meanwhile. */
export const rowsOf = (page: Page): Promise<string[]> =>
  page
    .locator("section.table tbody tr > :first-child")
    .evaluateAll((cells) => cells.map(({ textContent }) => textContent ?? ""));
