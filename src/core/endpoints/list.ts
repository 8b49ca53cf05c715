/**
 * Lists in request bodies. A list of zod's own gathers the faults of all its items: of a hundred thousand wrong ones that
 * is more than a call stack holds, and each says what the first one said. This one stops at its first fault, and copies no
 * item that is right.
 */
import * as z from "zod";

export interface ListRule {
  /** Fewest and most items (0, no limit). */
  readonly least?: number;
  readonly most?: number;
  /** What is said where there are more. */
  readonly tooMany?: string;
  /** True for items that are right at first sight, which is quicker than the schema; others are left to the schema. */
  readonly plain?: (item: unknown) => boolean;
}

/** A list whose items fit `item`; what comes out are the caller's own items, so the schema must change none of them. */
export function list<Item extends z.ZodType>(item: Item, rule: ListRule = {}): z.ZodType<z.output<Item>[]> {
  const { least = 0, most, tooMany, plain = () => false } = rule;
  const checked = z
    .array(z.unknown())
    .superRefine((items, context) => {
      // As zod has it: what is of another shape is no such list at all, which a union answers in its own words.
      const complain = (path: PropertyKey[], message: string, sameShape = true) =>
        context.addIssue({ code: "custom", path, message, continue: sameShape });
      if (items.length < least) return complain([], `must have at least ${least} item${least === 1 ? "" : "s"}`);
      if (most !== undefined && items.length > most) return complain([], tooMany ?? `must have at most ${most} items`);
      for (const [index, value] of items.entries()) {
        if (plain(value)) continue;
        const issue = item.safeParse(value).error?.issues[0];
        if (issue) return complain([index, ...issue.path], issue.message, issue.code === "custom");
      }
    })
    .meta({
      // Asked for by the document alone, where it is made.
      get items() {
        return inner(item);
      },
      ...(least > 0 && { minItems: least }),
      ...(most !== undefined && { maxItems: most }),
    });
  ITEMS.set(checked, item);
  return checked as unknown as z.ZodType<z.output<Item>[]>;
}

const ITEMS = new WeakMap<z.ZodType, z.ZodType>();

/** The schema of a list's items, which zod itself does not see; undefined where the schema is no such list. */
export const itemOf = (schema: z.ZodType): z.ZodType | undefined => ITEMS.get(schema);

function inner(item: z.ZodType): Record<string, unknown> {
  const { $schema: _, ...schema } = z.toJSONSchema(item, { io: "input", unrepresentable: "any" });
  return schema;
}

export const isString = (value: unknown): boolean => typeof value === "string";
