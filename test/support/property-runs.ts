/** Properties are tried 100 times each; `npm run proof` asks for more by `FC_NUM_RUNS`. */
import fc from "fast-check";

const runs = Number(process.env.FC_NUM_RUNS);
if (runs > 0) fc.configureGlobal({ numRuns: runs });
