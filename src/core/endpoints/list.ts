/**
 * Lists in request bodies. A list of zod's own gathers the faults of all its items: of a hundred thousand wrong ones that
 * is more than a call stack holds, and each says what the first one said. This one stops at its first fault, and copies no
 * item that is right.
 */
import * as z from "zod";
import { judge } from "../issue-words.ts";
import { arrayWords, listFacts, registerList } from "../schema-words.ts";

export interface ListRule {
  /** Fewest and most items (0, no limit). */
  readonly least?: number;
  readonly most?: number;
  /** What its items are called in errors, in the plural. */
  readonly what?: string;
  /** True for items that are right at first sight, which is quicker than the schema; others are left to the schema. */
  readonly plain?: (item: unknown) => boolean;
}

/** A list whose items fit `item`; what comes out are the caller's own items, so the schema must change none of them. */
export function list<Item extends z.ZodType>(item: Item, rule: ListRule = {}): z.ZodType<z.output<Item>[]> {
  const { least = 0, most, what, plain = () => false } = rule;
  const facts = { item, least, most, what };
  const checked = z
    .array(z.unknown())
    .superRefine((items, context) => {
      // As zod has it: what is of another shape is no such list at all, which a union answers in its own words.
      const complain = (path: PropertyKey[], message: string, sameShape = true) =>
        context.addIssue({ code: "custom", path, message, continue: sameShape });
      if (items.length < least || items.length > (most ?? items.length))
        return complain([], `must be ${arrayWords(facts)}`);
      for (const [index, value] of items.entries()) {
        if (plain(value)) continue;
        const judged = judge(item, value);
        if (!judged.ok) return complain([index, ...judged.fault.path], judged.fault.must, judged.fault.sameShape);
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
  registerList(checked, facts);
  return checked as unknown as z.ZodType<z.output<Item>[]>;
}

/** The schema of a list's items, which zod itself does not see; undefined where the schema is no such list. */
export const itemOf = (schema: z.ZodType): z.ZodType | undefined => listFacts(schema)?.item;

function inner(item: z.ZodType): Record<string, unknown> {
  const { $schema: _, ...schema } = z.toJSONSchema(item, { io: "input", unrepresentable: "any" });
  return schema;
}

export const isString = (value: unknown): boolean => typeof value === "string";
