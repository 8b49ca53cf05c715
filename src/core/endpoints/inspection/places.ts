/**
 * Where in a body the endpoint documents which names. Made of the endpoint's own schema, so that no name is written
 * twice, and of paths for what the schema leaves open. A field that is not documented has no place, and nothing that
 * stands under it has.
 */
import type * as z from "zod";
import { itemOf } from "../list.ts";

export interface Place {
  readonly fields: Map<string, Place>;
  /** Of a list's items. */
  items: Place | undefined;
  /** What stands here is the caller's own: names in it are no parameters. */
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

/** The places of a schema's fields, at every depth that it describes. */
export function placesOf(schema: z.ZodType, place: Place = newPlace()): Place {
  // Each schema of zod is one of this union; the class type alone does not say so.
  const { def } = (schema as unknown as z.core.$ZodTypes)._zod;
  switch (def.type) {
    case "object":
      for (const [name, field] of Object.entries(def.shape)) placesOf(field as z.ZodType, fieldOf(place, name));
      break;
    case "array":
      placesOf(itemOf(schema) ?? (def.element as z.ZodType), itemsOf(place));
      break;
    case "union":
      for (const option of def.options) placesOf(option as z.ZodType, place);
      break;
    case "optional":
    case "nullable":
      placesOf(def.innerType as z.ZodType, place);
      break;
  }
  return place;
}

/** The place at a path such as `tools[].function.parameters`, made where it is not there yet. */
export function placeAt(root: Place, path: string): Place {
  return path
    .split(".")
    .reduce<Place>(
      (place, step) => (step.endsWith("[]") ? itemsOf(fieldOf(place, step.slice(0, -2))) : fieldOf(place, step)),
      root,
    );
}

/** All names that stand in places, each once. */
export function namesIn(place: Place, names: Set<string> = new Set()): Set<string> {
  for (const [name, field] of place.fields) namesIn(field, names.add(name));
  if (place.items) namesIn(place.items, names);
  return names;
}
