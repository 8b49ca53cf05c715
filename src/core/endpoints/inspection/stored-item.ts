/**
 * Items of a response's input that stand for one the service has stored, in an account that all tenants share. The API
 * takes `{type: "item_reference", id}`, the same without a type, and items of other types by nothing but their id. So an
 * item with an id has to say something of its own, in a field that is known to say something.
 */
import { fold } from "./fold.ts";

/** What items of the API are made of, besides ids and labels. Folded. */
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
  return (
    names.some((name) => item[name] !== null && fold(name) === "id") &&
    !names.some((name) => SAYS.has(fold(name)) && saysAnything(item[name]))
  );
}

/** Empty lists and objects say nothing, however deep they are. */
function saysAnything(value: unknown): boolean {
  if (!value) return false;
  return typeof value !== "object" || Object.values(value).some(saysAnything);
}
