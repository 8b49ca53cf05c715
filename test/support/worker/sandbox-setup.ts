/**
 * Runs before every test file of the sandbox. The files share a workerd, and each begins with a sandbox that is new.
 */
import { env } from "cloudflare:workers";
import type { SandboxEnv } from "../../../sandbox/env.ts";
import { emptyStorage } from "./empty.ts";

const { SERVICE, COMPUTE } = env as unknown as SandboxEnv;
await emptyStorage(SERVICE as DurableObjectNamespace, COMPUTE as DurableObjectNamespace);
