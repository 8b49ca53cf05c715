/** As test/support/in-full.ts, in workerd, where vitest.config.ts binds it. */
import { env } from "cloudflare:workers";

export const IN_FULL = (env as { PROOF?: string }).PROOF === "1";
