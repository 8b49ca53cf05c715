/** The sandbox's bindings (`wrangler.toml` beside it). */
import type { Service } from "./service/service.ts";
import type { SandboxSettings } from "./settings.ts";

export interface SandboxEnv extends SandboxSettings {
  readonly SERVICE: DurableObjectNamespace<Service>;
}

/** The one object that holds all state of the service. */
export type ServiceStub = DurableObjectStub<Service>;

export const serviceOf = (env: SandboxEnv): ServiceStub => env.SERVICE.getByName("service");
