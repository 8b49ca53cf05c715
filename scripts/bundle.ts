/** Bundles a Worker: what runs in tests and benchmarks, and what `npm run deploy` uploads. */
import { type Plugin, rolldown } from "rolldown";
import { withoutDocuments } from "./without-documents.ts";

/** The most that the gateway's code may come to, gzipped, in KB of 1,024 bytes (docs/design.md, section 11). */
export const MOST_GZIPPED_KB = 240;

/** File types that a Worker imports as text. */
const TEXT = { ".sql": "text", ".txt": "text", ".html": "text" } as const;

/** Returns one ES module; `minify` as in a deployment. */
export async function bundle(
  main: string,
  define: Record<string, string>,
  minify = false,
  plugins: readonly Plugin[] = [],
): Promise<string> {
  const build = await rolldown({
    input: main,
    external: /^(cloudflare|node):/,
    resolve: { conditionNames: ["workerd", "worker", "browser", "import"] },
    moduleTypes: TEXT,
    plugins: [...plugins, withoutDocuments],
    transform: { target: "es2024", define: { "process.env.NODE_ENV": '"production"', ...define } },
    // Building a schema does nothing besides.
    treeshake: { manualPureFunctions: ["z"] },
    logLevel: "warn",
  });
  try {
    const { output } = await build.generate({ format: "esm", codeSplitting: false, comments: false, minify });
    const [module] = output;
    return module.code;
  } finally {
    await build.close();
  }
}
