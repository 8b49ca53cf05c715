/**
 * Items of a response's input that stand for one the service has stored, in an account that all tenants share. The API
 * takes `{type: "item_reference", id}`, the same without a type, and items of other types by nothing but their id.
 */
import { fold } from "./fold.ts";

/** What such an item may carry besides its id without saying anything. */
const LABELS: ReadonlySet<string> = new Set(["id", "type", "role", "status", "phase"]);

export function namesStoredItem(item: Readonly<Record<string, unknown>>): boolean {
  const { type } = item;
  if (typeof type === "string" && fold(type) === "itemreference") return true;
  const entries = Object.entries(item);
  return entries.every(isLabel) && entries.some(([name, value]) => value !== null && fold(name) === "id");
}

const isLabel = ([name, value]: readonly [string, unknown]): boolean =>
  value === null || value === "" || (Array.isArray(value) && value.length === 0) || LABELS.has(fold(name));
