/** What the sandbox is bound to (`wrangler.toml` beside it), and what it reads from its variables. */
import type { Service } from "./service/service.ts";

export interface SandboxEnv {
  readonly SERVICE: DurableObjectNamespace<Service>;
  /** JSON: account by API key. */
  readonly SANDBOX_KEYS?: string;
  readonly SANDBOX_FRAME_DELAY_MS?: string;
  /** Video submissions that an account may make in 60 s. */
  readonly SANDBOX_VIDEO_SUBMISSIONS?: string;
}

/** The one object that holds all state of the service. */
export type ServiceStub = DurableObjectStub<Service>;

const DEFAULT_KEYS = '{"sandbox-key":"operator","sandbox-other-key":"other"}';

export const serviceOf = (env: SandboxEnv): ServiceStub => env.SERVICE.getByName("service");

/** The account whose key stands in `Authorization: Bearer`; undefined where there is none or nobody's. */
export function accountOf(env: SandboxEnv, authorization: string | null): string | undefined {
  const key = /^Bearer +(\S+)$/i.exec(authorization ?? "")?.[1];
  if (key === undefined) return undefined;
  const accounts = JSON.parse(env.SANDBOX_KEYS ?? DEFAULT_KEYS) as Record<string, string>;
  return Object.hasOwn(accounts, key) ? accounts[key] : undefined;
}

export const frameDelayMs = (env: SandboxEnv): number => Number(env.SANDBOX_FRAME_DELAY_MS ?? "1");

export const videoSubmissions = (env: SandboxEnv): number => Number(env.SANDBOX_VIDEO_SUBMISSIONS ?? "10");
