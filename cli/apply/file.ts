/**
 * Reads the file that `apply` takes: YAML or JSON. It may come from anywhere, so it has a bound, names nothing twice,
 * may not blow itself up by repeated parts, and no number in it loses digits.
 */
import { parseDocument, type Scalar, visit } from "yaml";
import { usage } from "../failure.ts";

export const MOST_YAML_BYTES = 4 * 1024 * 1024;
const MOST_ALIASES = 100;
/** A binary fraction keeps this many decimal digits. */
const EXACT_DIGITS = 15;

export function readYaml(text: string): unknown {
  try {
    const document = parseDocument(text, { version: "1.2", uniqueKeys: true, strict: true, prettyErrors: true });
    const [problem] = [...document.errors, ...document.warnings];
    if (problem) throw usage(`The file is not read: ${problem.message.trim()}`);
    visit(document, { Scalar: (_, node) => requireExact(node) });
    return document.toJS({ maxAliasCount: MOST_ALIASES });
  } catch (error) {
    // Nested too deep, or parts that repeat parts.
    if (error instanceof RangeError || error instanceof ReferenceError)
      throw usage(`The file is not read: ${error.message}`);
    throw error;
  }
}

function requireExact({ value, source }: Scalar): void {
  if (typeof value !== "number" || source === undefined) return;
  const digits = source.replace(/e.*$/i, "").replace(/\D/g, "").replace(/^0+/, "");
  if (digits.length > EXACT_DIGITS)
    throw usage(`The number ${source} has more digits than are kept: put it in quotes.`);
}
