/** Values of answers as cells. */
import type { Decimal } from "../../src/api/kit/csv.ts";
import { shownUsd } from "../usd.ts";

export const usd = (amount: number | null | undefined): Decimal | null =>
  amount === null || amount === undefined ? null : { decimal: shownUsd(amount) };

/** To the second. */
export const when = (iso: string | null | undefined): string | null => iso?.replace(/\.\d+Z$/, "Z") ?? null;

export const yes = (value: boolean): string => (value ? "yes" : "no");
