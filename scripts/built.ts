/**
 * What one process of a test run builds, the others take: `BUILT_DIR` names the folder. Without it each builds for
 * itself, so no code that has changed since is ever run.
 */
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export async function builtOnce(name: string, make: () => Promise<string>): Promise<string> {
  const folder = process.env.BUILT_DIR;
  if (!folder) return make();
  const file = join(folder, name);
  if (existsSync(file)) return readFileSync(file, "utf8");
  const text = await make();
  writeFileSync(`${file}.${process.pid}`, text);
  renameSync(`${file}.${process.pid}`, file);
  return text;
}
