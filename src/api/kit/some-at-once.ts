/** Accounts that one call asks at once. */
export const ASKED_AT_ONCE = 10;

/** Asks for each item, so many at once; the answers in the items' order. */
export async function someAtOnce<Item, Answer>(
  items: readonly Item[],
  ask: (item: Item) => Promise<Answer>,
): Promise<Answer[]> {
  const answers: Answer[] = [];
  for (let at = 0; at < items.length; at += ASKED_AT_ONCE) {
    answers.push(...(await Promise.all(items.slice(at, at + ASKED_AT_ONCE).map(ask))));
  }
  return answers;
}
