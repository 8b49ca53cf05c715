/** A part that is not what it was: it was changed, or taken away, by hand. What it had cannot be answered. */
import { type PartPlace, partName } from "./part.ts";

export class DamagedPart extends Error {
  constructor(part: PartPlace, why: string) {
    super(`${partName(part)}: ${why}`);
  }
}
