/** Bundles a Worker as `wrangler deploy` does, with the same bundler and options, in a tenth of the time. */
import { pathToFileURL } from "node:url";
import { build, type Plugin } from "esbuild";

/** The most that the gateway's code may come to, gzipped, in KB of 1,024 bytes (docs/design.md, section 11). */
export const MOST_GZIPPED_KB = 240;

/** File types that a Worker imports as text (wrangler's default rules). */
const TEXT = { ".sql": "text", ".txt": "text", ".html": "text" } as const;

/**
 * Lets tests build a gateway with stops inside: `TEST_BUILD_PLUGIN` names a module that exports a bundler plugin.
 * Deployments are built by wrangler, which does not read it.
 */
async function pluginsOfTests(): Promise<Plugin[]> {
  const file = process.env.TEST_BUILD_PLUGIN;
  return file ? [((await import(pathToFileURL(file).href)) as { default: Plugin }).default] : [];
}

/** Returns one ES module; `minify` as in a deployment. */
export async function bundle(
  main: string,
  define: Record<string, string>,
  minify = false,
  plugins: readonly Plugin[] = [],
): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [main],
    bundle: true,
    write: false,
    format: "esm",
    target: "es2024",
    conditions: ["workerd", "worker", "browser"],
    external: ["cloudflare:*", "node:*"],
    loader: TEXT,
    plugins: [...plugins, ...(await pluginsOfTests())],
    define: { "process.env.NODE_ENV": '"production"', ...define },
    minify,
    logLevel: "warning",
  });
  const [module] = outputFiles;
  if (!module) throw new Error(`${main} gave no bundle`);
  return module.text;
}
