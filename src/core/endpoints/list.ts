/**
 * Lists in request bodies. A zod array collects the issues of all its items: for a hundred thousand wrong items that
 * overflows the call stack, and all say the same. This one stops at the first issue and copies no item.
 */
import * as z from "zod/mini";
import { judge } from "../issue-words.ts";
import { arrayWords, listFacts, registerList } from "../schema-words.ts";

export interface ListRule {
  /** Minimum and maximum number of items (0, no limit). */
  readonly least?: number;
  readonly most?: number;
  /** Plural name of the items in error messages. */
  readonly what?: string;
  /** A quick check: true for items that are certainly valid. Others are checked by the schema. */
  readonly plain?: (item: unknown) => boolean;
}

/** A list whose items match `item`. The caller's own items are returned, so the schema must not transform them. */
export function list<Item extends z.core.$ZodType>(item: Item, rule: ListRule = {}): z.core.$ZodType<z.output<Item>[]> {
  const { least = 0, most, what, plain = () => false } = rule;
  const facts = { item, least, most, what };
  const checked = z.array(z.unknown()).check(
    z.superRefine((items, context) => {
      // Like zod: a value that is no list aborts, so that a union reports its own error.
      const complain = (path: PropertyKey[], message: string, sameShape = true) =>
        context.addIssue({ code: "custom", path, message, continue: sameShape });
      if (items.length < least || items.length > (most ?? items.length))
        return complain([], `must be ${arrayWords(facts)}`);
      for (const [index, value] of items.entries()) {
        if (plain(value)) continue;
        const judged = judge(item, value);
        if (!judged.ok) return complain([index, ...judged.fault.path], judged.fault.must, judged.fault.sameShape);
      }
    }),
  );
  registerList(checked, facts);
  return checked as unknown as z.core.$ZodType<z.output<Item>[]>;
}

/** The item schema of a list made by `list()`, which zod does not see; undefined for any other schema. */
export const itemOf = (schema: z.core.$ZodType): z.core.$ZodType | undefined => listFacts(schema)?.item;

export const isString = (value: unknown): boolean => typeof value === "string";
