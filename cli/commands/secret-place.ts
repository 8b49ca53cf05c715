/** Where a secret goes that is shown once: to a file of mode 0600, or, if that was said, to standard output. */
import type { Option, Work } from "../command.ts";
import { usage } from "../failure.ts";
import { addToKeysFile, type MadeKey, openKeysFile } from "../local/keys-file.ts";

export const SECRET_OPTIONS: readonly Option[] = [
  { name: "out", value: "FILE", about: "add the secret to this file of mode 0600" },
  { name: "show", about: "print the secret" },
];

/** Checked before anything is made: a secret without a place is lost. */
export function secretPlace({ given, print }: Work): (made: MadeKey) => Promise<void> {
  const out = given.text("out");
  if (out === undefined && !given.flag("show")) {
    throw usage("The secret is shown once: say --out FILE to keep it in a file of yours alone, or --show to print it.");
  }
  if (out !== undefined) openKeysFile(out);
  return async (made) => {
    if (out !== undefined) addToKeysFile(out, made);
    const shown = {
      account: made.account,
      id: made.keyId,
      name: made.name,
      ...(out !== undefined && { written_to: out }),
    };
    if (!given.flag("show")) {
      return print.thing(
        [
          ["id", made.keyId],
          ["name", made.name],
          ["secret", `in ${out}`],
        ],
        shown,
      );
    }
    return print.thing(
      [
        ["id", made.keyId],
        ["name", made.name],
        ["secret", made.secret],
      ],
      { ...shown, secret: made.secret },
    );
  };
}
