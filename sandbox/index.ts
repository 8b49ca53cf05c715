/** The sandbox: the inference service that the contract describes, to build and test against. */
import { app } from "./app.ts";
import type { SandboxEnv } from "./env.ts";

export { Service } from "./service/service.ts";

export default { fetch: app.fetch } satisfies ExportedHandler<SandboxEnv>;
