/**
 * Finds input items that refer to an item stored by the service, in an account that all tenants share. The API accepts
 * `{type: "item_reference", id}`, the same without a type, and items of other types with only their id. So an item with
 * an id must also have content, in a field known to carry content.
 */
import { fold } from "./fold.ts";

/** Fields that carry an item's content, as opposed to ids and labels. Folded. */
const SAYS: ReadonlySet<string> = new Set(
  (
    "content text refusal summary encryptedcontent arguments input output result results code queries action actions " +
    "operation command error tools callid"
  ).split(" "),
);

export const isItemReference = (type: unknown): boolean => typeof type === "string" && fold(type) === "itemreference";

export function namesStoredItem(item: Readonly<Record<string, unknown>>): boolean {
  if (isItemReference(item.type)) return true;
  const names = Object.keys(item);
  // As most items are written.
  if (names.some((name) => SAYS.has(name) && typeof item[name] === "string" && item[name] !== "")) return false;
  return (
    names.some((name) => item[name] !== null && fold(name) === "id") &&
    !names.some((name) => SAYS.has(fold(name)) && saysAnything(item[name]))
  );
}

/** Empty lists and objects are not content, at any depth. */
function saysAnything(value: unknown): boolean {
  if (!value) return false;
  return typeof value !== "object" || Object.values(value).some(saysAnything);
}
