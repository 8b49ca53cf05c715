/**
 * The sandbox: the inference service of the contract, to build and test the gateway against. It knows nothing of the
 * gateway. The folders are its endpoints by kind; service/ is the object that holds its state.
 */
import { app } from "./app.ts";
import type { SandboxEnv } from "./env.ts";

export { Service } from "./service/service.ts";

export default { fetch: app.fetch } satisfies ExportedHandler<SandboxEnv>;
