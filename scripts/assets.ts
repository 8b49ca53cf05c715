/**
 * Makes the static assets that wrangler.toml names, in `assets/`. `npm start`, `npm run deploy` and the tests do it
 * before they start a Worker, so nothing there is older than the code.
 *
 *     documents/    the OpenAPI documents, from the rows that validate and serve
 *     console/      the console's page, scripts and styles
 */
import { globSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { build, type Plugin } from "esbuild";
import { consoleFiles } from "./console.ts";

const root = join(import.meta.dirname, "..");
const ASSETS = join(root, "assets");

/** Contents by path among the assets. */
type Files = Readonly<Record<string, string | Uint8Array>>;

/** Each makes some of the files, no two the same one. */
const PARTS: readonly (() => Promise<Files>)[] = [documentFiles, consoleFiles];

export async function makeAssets(): Promise<void> {
  const parts = await Promise.all(PARTS.map((part) => part()));
  const files = new Map(
    parts.flatMap((part) => Object.entries(part)).map(([path, text]) => [join(ASSETS, path), text]),
  );
  for (const [file, content] of files) writeChanged(file, content);
  for (const entry of globSync("**/*", { cwd: ASSETS, withFileTypes: true })) {
    const file = join(entry.parentPath, entry.name);
    if (entry.isFile() && !files.has(file)) rmSync(file, { force: true });
  }
}

/** Leaves a file alone that is right: a Worker that runs may be reading it. */
function writeChanged(file: string, content: string | Uint8Array): void {
  if (contentOf(file)?.equals(Buffer.from(content))) return;
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(`${file}.${process.pid}`, content);
  renameSync(`${file}.${process.pid}`, file);
}

function contentOf(file: string): Buffer | undefined {
  try {
    return readFileSync(file);
  } catch {
    return undefined;
  }
}

/** What routes import of the platform's modules; making a document calls none of it. */
const WITHOUT_PLATFORM: Plugin = {
  name: "without-platform",
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^cloudflare:/ }, ({ path }) => ({ path, namespace: "platform" }));
    onLoad({ filter: /./, namespace: "platform" }, () => ({ contents: "module.exports = {}" }));
  },
};

/** Bundled, because that is far quicker than to load some hundred files. */
export async function documentFiles(): Promise<Files> {
  const { outputFiles } = await build({
    entryPoints: [join(root, "src/api/documents/documents.ts")],
    bundle: true,
    write: false,
    format: "esm",
    platform: "node",
    plugins: [WITHOUT_PLATFORM],
    logLevel: "warning",
  });
  const code = encodeURIComponent(outputFiles[0]?.text ?? "");
  const { documents } = (await import(`data:text/javascript,${code}`)) as { documents(): Files };
  return documents();
}
