/** What the sandbox reads from its variables (`wrangler.toml` beside it). */
export interface SandboxSettings {
  /** JSON: account by API key. */
  readonly SANDBOX_KEYS?: string;
  readonly SANDBOX_FRAME_DELAY_MS?: string;
  /** Video submissions that an account may make in 60 s. */
  readonly SANDBOX_VIDEO_SUBMISSIONS?: string;
  /** How long an hour and a day of compute are, ms. */
  readonly COMPUTE_HOUR_MS?: string;
  readonly COMPUTE_DAY_MS?: string;
}

const DEFAULT_KEYS = '{"sandbox-key":"operator","sandbox-other-key":"other"}';

/** The key in `Authorization: Bearer`. */
export const bearerOf = (authorization: string | null): string | null =>
  /^Bearer +(\S+)$/i.exec(authorization ?? "")?.[1] ?? null;

/** The account whose key is in `Authorization: Bearer`; undefined if there is no key or it is unknown. */
export function accountOf(env: SandboxSettings, authorization: string | null): string | undefined {
  const key = bearerOf(authorization);
  if (key === null) return undefined;
  const accounts = JSON.parse(env.SANDBOX_KEYS ?? DEFAULT_KEYS) as Record<string, string>;
  return Object.hasOwn(accounts, key) ? accounts[key] : undefined;
}

export const frameDelayMs = (env: SandboxSettings): number => Number(env.SANDBOX_FRAME_DELAY_MS ?? "1");

export const videoSubmissions = (env: SandboxSettings): number => Number(env.SANDBOX_VIDEO_SUBMISSIONS ?? "10");

export const computeLengths = (env: SandboxSettings): { hourMs: number; dayMs: number } => ({
  hourMs: Number(env.COMPUTE_HOUR_MS ?? "3600000"),
  dayMs: Number(env.COMPUTE_DAY_MS ?? "86400000"),
});
