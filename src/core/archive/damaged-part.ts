/** A part was changed or removed by hand, so what it held cannot be answered. */
import { type PartPlace, partName } from "./part.ts";

export class DamagedPart extends Error {
  constructor(part: PartPlace, why: string) {
    super(`${partName(part)}: ${why}`);
  }
}
