/** The sandbox's bindings (`wrangler.toml` beside it). */
import type { Compute } from "./compute/object.ts";
import type { Service } from "./service/service.ts";
import type { SandboxSettings } from "./settings.ts";

export interface SandboxEnv extends SandboxSettings {
  readonly SERVICE: DurableObjectNamespace<Service>;
  readonly COMPUTE: DurableObjectNamespace<Compute>;
}

/** The one object that holds all state of the service. */
export type ServiceStub = DurableObjectStub<Service>;

export const serviceOf = (env: SandboxEnv): ServiceStub => env.SERVICE.getByName("service");

/** The one object that holds all state of the compute side. */
export const computeOf = (env: SandboxEnv): DurableObjectStub<Compute> => env.COMPUTE.getByName("compute");
