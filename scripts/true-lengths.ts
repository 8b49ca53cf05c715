/** An hour and a day of compute are true ones in a deployment: shorter ones would bill tenants for time that did not pass. */

const TRUE_MS = { COMPUTE_HOUR_MS: 3_600_000, COMPUTE_DAY_MS: 86_400_000 } as const;
const NAMES = Object.keys(TRUE_MS) as (keyof typeof TRUE_MS)[];

/** What keeps these settings from being deployed. `secrets`: the text of a file of secrets. */
export function lengthFaults(vars: Readonly<Record<string, unknown>>, secrets = ""): string[] {
  return NAMES.flatMap((name) => [
    ...(name in vars && Number(vars[name]) !== TRUE_MS[name]
      ? [`${name} is ${JSON.stringify(vars[name])} in wrangler.toml. A deployment takes ${TRUE_MS[name]} only.`]
      : []),
    ...(new RegExp(`(^\\s*(export\\s+)?${name}\\s*=)|("${name}"\\s*:)`, "m").test(secrets)
      ? [`${name} stands among the secrets. Take it out: wrangler.toml has it.`]
      : []),
  ]);
}
