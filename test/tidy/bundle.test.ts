/** What a deployment's code leaves out. */
import { join } from "node:path";
import { expect, it } from "vitest";
import { documentFiles } from "../../scripts/assets.ts";
import { bundle } from "../../scripts/bundle.ts";
import { leaveOut } from "../../scripts/without-documents.ts";
import { TRACE } from "../support/kill-points.ts";

const main = join(import.meta.dirname, "../../src/index.ts");

/** Texts of a document: what its calls, answers and fields are for. */
function* said(value: unknown): Generator<string> {
  if (typeof value !== "object" || value === null) return;
  for (const [name, member] of Object.entries(value)) {
    if ((name === "summary" || name === "description") && typeof member === "string") yield member;
    else yield* said(member);
  }
}

it("of the texts that the documents show hardly one is deployed, and no point of a test's build", async () => {
  const [code, documents] = await Promise.all([bundle(main, {}, true), documentFiles()]);
  const parsed = Object.entries(documents).map(([, text]) => JSON.parse(String(text)) as { paths: unknown });
  const texts = [...new Set(parsed.flatMap(({ paths }) => [...said(paths)]))].filter((text) => text.length > 20);
  expect(texts.length).toBeGreaterThan(100);
  const deployed = texts.filter((text) => code.includes(JSON.stringify(text).slice(1, -1)));
  // Some are errors too, or come to a schema as an argument.
  expect(deployed.length, String(deployed)).toBeLessThan(texts.length / 20);
  expect(code).not.toContain(TRACE);
});

const left = (source: string): string => leaveOut(source, "row.ts").replaceAll(/\s+/g, " ");

it("what a schema checks stays when its description goes", () => {
  expect(left('const a = z.nullish(b).check(z.describe("x"));')).toBe("const a = z.nullish(b);");
  expect(left("const a = b.check(z.meta({ examples: [1] }), z.minLength(1));")).toBe(
    "const a = b.check( z.minLength(1));",
  );
  expect(left('const a = b.check(z.minLength(1), z.describe("x" + `y`));')).toBe(
    "const a = b.check(z.minLength(1), );",
  );
  expect(left('const a = z.object({ b }).register(z.globalRegistry, { id: "A" });')).toBe("const a = z.object({ b });");
});

it("of a row only its summary and its answers go", () => {
  const row = 'route({ id: "a", summary: "b", body: c.check(z.describe("d")), answers: { 200: answers("e", f) } })';
  expect(left(row)).toBe('route({ id: "a", body: c, })');
  expect(left('other({ summary: "b" })')).toBe('other({ summary: "b" })');
});
