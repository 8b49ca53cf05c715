/** How often random histories are tried. `npm run proof` asks for more by `HISTORIES`. */
import { env } from "cloudflare:workers";

const numRuns = env.TEST_HISTORIES;

export const HISTORIES = { numRuns, endOnFailure: true };
/** Ample: a test that is cut off would run on beside the next file's, whose clock it moves. */
export const HISTORIES_TIMEOUT_MS = numRuns * 10_000;
