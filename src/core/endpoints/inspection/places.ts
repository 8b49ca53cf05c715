/**
 * The places where an endpoint documents fields, derived from its schema so that no name is written twice, plus paths
 * for what the schema leaves open. An undocumented field has no place, and neither has anything inside it.
 */
import type * as z from "zod/mini";
import { itemOf } from "../list.ts";

export interface Place {
  readonly fields: Map<string, Place>;
  /** The place of a list's items. */
  items: Place | undefined;
  /** The caller's own data: names in it are not parameters. */
  data: boolean;
}

const newPlace = (): Place => ({ fields: new Map(), items: undefined, data: false });

export const fieldOf = (place: Place, name: string): Place => {
  const known = place.fields.get(name) ?? newPlace();
  place.fields.set(name, known);
  return known;
};

const itemsOf = (place: Place): Place => {
  place.items ??= newPlace();
  return place.items;
};

/** Adds the places of a schema's fields, at every depth. */
export function placesOf(schema: z.core.$ZodType, place: Place = newPlace()): Place {
  // Every zod schema is a member of this union; its class type does not say so.
  const { def } = (schema as unknown as z.core.$ZodTypes)._zod;
  switch (def.type) {
    case "object":
      for (const [name, field] of Object.entries(def.shape)) placesOf(field as z.core.$ZodType, fieldOf(place, name));
      break;
    case "array":
      placesOf(itemOf(schema) ?? (def.element as z.core.$ZodType), itemsOf(place));
      break;
    case "union":
      for (const option of def.options) placesOf(option as z.core.$ZodType, place);
      break;
    case "optional":
    case "nullable":
      placesOf(def.innerType as z.core.$ZodType, place);
      break;
  }
  return place;
}

/** The place at a path such as `tools[].function.parameters`; created if missing. */
export function placeAt(root: Place, path: string): Place {
  return path
    .split(".")
    .reduce<Place>(
      (place, step) => (step.endsWith("[]") ? itemsOf(fieldOf(place, step.slice(0, -2))) : fieldOf(place, step)),
      root,
    );
}

/** All documented names, each once. */
export function namesIn(place: Place, names: Set<string> = new Set()): Set<string> {
  for (const [name, field] of place.fields) namesIn(field, names.add(name));
  if (place.items) namesIn(place.items, names);
  return names;
}
