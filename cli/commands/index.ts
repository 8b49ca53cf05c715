/** Every command, in the order of the help. */
import type { Command } from "../command.ts";
import { ACCOUNT_COMMANDS } from "./accounts.ts";
import { APPLY_COMMANDS } from "./apply.ts";
import { CALL_COMMANDS } from "./calls.ts";
import { doctorCommand } from "./doctor.ts";
import { exportCommand } from "./export.ts";
import { KEY_COMMANDS } from "./keys.ts";
import { limitsCommand } from "./limits.ts";
import { OPERATOR_COMMANDS } from "./operators.ts";
import { PRICE_COMMANDS } from "./prices.ts";
import { PROFILE_COMMANDS } from "./profiles.ts";
import { proveCommand } from "./prove.ts";
import { statementCommand } from "./statements.ts";
import { STATUS_COMMANDS } from "./status.ts";
import { UPSTREAM_COMMANDS } from "./upstreams.ts";
import { WEBHOOK_COMMANDS } from "./webhooks.ts";
import { whyCommand } from "./why.ts";

export const COMMANDS: readonly Command[] = [
  ...STATUS_COMMANDS,
  doctorCommand,
  ...CALL_COMMANDS,
  whyCommand,
  proveCommand,
  ...APPLY_COMMANDS,
  ...ACCOUNT_COMMANDS,
  limitsCommand,
  statementCommand,
  exportCommand,
  ...KEY_COMMANDS,
  ...PRICE_COMMANDS,
  ...UPSTREAM_COMMANDS,
  ...OPERATOR_COMMANDS,
  ...WEBHOOK_COMMANDS,
  ...PROFILE_COMMANDS,
];
