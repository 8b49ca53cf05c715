/**
 * Builds the console: one page, and files with a digest in their names, which a browser may keep for ever. Each side's
 * pages are files of their own, so that signing in loads only what that side sees.
 */
import { readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { build } from "esbuild";

const from = join(import.meta.dirname, "../console");

/** By path among the assets. */
export async function consoleFiles(): Promise<Record<string, string | Uint8Array>> {
  const { metafile, outputFiles } = await build({
    entryPoints: [join(from, "main.tsx")],
    outdir: "console",
    bundle: true,
    write: false,
    splitting: true,
    format: "esm",
    target: ["chrome123", "firefox121", "safari17.5"],
    jsx: "automatic",
    jsxImportSource: "preact",
    minify: true,
    metafile: true,
    legalComments: "none",
    entryNames: "[name]-[hash]",
    chunkNames: "[name]-[hash]",
    define: { "process.env.NODE_ENV": '"production"' },
    logLevel: "warning",
  });
  const [script, { cssBundle = undefined } = {}] =
    Object.entries(metafile.outputs).find(([, { entryPoint }]) => entryPoint?.endsWith("console/main.tsx")) ?? [];
  if (script === undefined || cssBundle === undefined) throw new Error("the console has no script or no style");
  const page = readFileSync(join(from, "index.html"), "utf8")
    .replace("%SCRIPT%", `/console/${basename(script)}`)
    .replace("%STYLE%", `/console/${basename(cssBundle)}`);
  return {
    ...Object.fromEntries(outputFiles.map(({ path, contents }) => [`console/${basename(path)}`, contents])),
    "console/index.html": page,
    "console/icon.svg": readFileSync(join(from, "icon.svg"), "utf8"),
  };
}
