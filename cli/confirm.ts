/** Before money or traffic is moved: shows what is to be done and asks, unless `--yes` or `--dry-run` says it all. */
import type { Work } from "./command.ts";
import { refused, usage } from "./failure.ts";

/** False: only shown. */
export async function confirmed({ given, io, print }: Work, question: string): Promise<boolean> {
  if (given.flag("dry-run")) {
    await print.say("Nothing was changed: this was a dry run.");
    return false;
  }
  if (given.flag("yes")) return true;
  const answer = await io.question(`${question} [y/N] `);
  if (answer === null) throw usage(`${question} Nobody can be asked here: say --yes, or --dry-run to see it alone.`);
  if (/^y(es)?$/i.test(answer.trim())) return true;
  throw refused("Nothing was changed.");
}
