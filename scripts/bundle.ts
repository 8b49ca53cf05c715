/**
 * Bundles a Worker as `wrangler deploy` does, by the same bundler with the same choices, in a tenth of the time.
 */
import { pathToFileURL } from "node:url";
import { build, type Plugin } from "esbuild";

/** Types that a Worker imports as text (wrangler's own default rules). */
const TEXT = { ".sql": "text", ".txt": "text", ".html": "text" } as const;

/**
 * Tests build a gateway with stops of theirs inside: `TEST_BUILD_PLUGIN` names a module that exports a plugin of the
 * bundler's. A deployment is built by wrangler, which knows nothing of it.
 */
async function pluginsOfTests(): Promise<Plugin[]> {
  const file = process.env.TEST_BUILD_PLUGIN;
  return file ? [((await import(pathToFileURL(file).href)) as { default: Plugin }).default] : [];
}

/** One ES module; `minify` as a deployment has it. */
export async function bundle(main: string, define: Record<string, string>, minify = false): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [main],
    bundle: true,
    write: false,
    format: "esm",
    target: "es2024",
    conditions: ["workerd", "worker", "browser"],
    external: ["cloudflare:*", "node:*"],
    loader: TEXT,
    plugins: await pluginsOfTests(),
    define: { "process.env.NODE_ENV": '"production"', ...define },
    keepNames: true,
    minify,
    logLevel: "warning",
  });
  const [module] = outputFiles;
  if (!module) throw new Error(`${main} gave no bundle`);
  return module.text;
}
