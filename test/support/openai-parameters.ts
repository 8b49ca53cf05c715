/** The parameters of OpenAI's calls, read from the types of its own package. */
import { readFileSync } from "node:fs";

const RESOURCES = new URL("../../node_modules/openai/resources/", import.meta.url);

/** The names of an interface's members, as the package of this version has them. */
export function membersOf(file: string, name: string): readonly string[] {
  const text = readFileSync(new URL(file, RESOURCES), "utf8");
  const body = new RegExp(`^export interface ${name}\\b[^\\n]*\\{\\n([\\s\\S]*?)\\n\\}`, "m").exec(text)?.[1];
  if (body === undefined) throw new Error(`${file} has no interface ${name}`);
  return Array.from(body.matchAll(/^ {4}(\w+)\??: /gm), ([, member = ""]) => member);
}
