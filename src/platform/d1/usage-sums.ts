/** The columns that hourly and daily sums have in common. */
import { UNIT_COLUMNS } from "./usage-events.ts";

/** What reports can be grouped by, in every hour's rows. */
export const GROUPS = "account, team, key, model, alias";
export const QUANTITIES = [
  "latency_ms",
  ...Object.values(UNIT_COLUMNS),
  "price_nano_usd",
  "cost_nano_usd",
  "overrun_nano_usd",
  "loss_nano_usd",
  "low_input",
];
