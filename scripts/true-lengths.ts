/**
 * Settings that tests change and a deployment may not. An hour and a day of compute are true ones: shorter ones would
 * bill tenants for time that did not pass. Webhooks have no origin beside public ones.
 */

const TRUE = { COMPUTE_HOUR_MS: "3600000", COMPUTE_DAY_MS: "86400000", WEBHOOK_TEST_ORIGINS: "" } as const;
const NAMES = Object.keys(TRUE) as (keyof typeof TRUE)[];

/** What keeps these settings from being deployed. `secrets`: the text of a file of secrets. */
export function lengthFaults(vars: Readonly<Record<string, unknown>>, secrets = ""): string[] {
  return NAMES.flatMap((name) => [
    ...(name in vars && String(vars[name]) !== TRUE[name]
      ? [`${name} is ${JSON.stringify(vars[name])} in wrangler.toml. A deployment takes ${TRUE[name] || "none"} only.`]
      : []),
    ...(new RegExp(`(^\\s*(export\\s+)?${name}\\s*=)|("${name}"\\s*:)`, "m").test(secrets)
      ? [`${name} stands among the secrets. Take it out: wrangler.toml has it.`]
      : []),
  ]);
}
