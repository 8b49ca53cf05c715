/** Changes to what several may change at once: of two, the second is made to what the first left. */
import { conflict } from "./problem.ts";

/** How often a change is made up anew because another came in between. */
const TRIES = 5;

/** `make` reads what there is now, and stores what becomes of it; undefined where another change came in between. */
export async function changeLatest<Stored>(
  what: string,
  name: string,
  make: () => Promise<Stored | undefined>,
): Promise<Stored> {
  for (let tried = 0; tried < TRIES; tried++) {
    const stored = await make();
    if (stored !== undefined) return stored;
  }
  throw conflict(`${what}_changing`, `Others change the ${what} '${name}' at this moment. Send this again.`);
}
