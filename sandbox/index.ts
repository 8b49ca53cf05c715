/**
 * The sandbox: the inference service of the contract, to build and test the gateway against. It knows nothing of the
 * gateway. The folders are its endpoints by kind; service/ is the object that holds its state. compute/ is the
 * compute API, with an object of its own.
 */
import { app } from "./app.ts";
import { isCompute, serveCompute } from "./compute/serve.ts";
import type { SandboxEnv } from "./env.ts";

export { Compute } from "./compute/object.ts";
export { Service } from "./service/service.ts";

export default {
  fetch(request, env, ctx) {
    if (!isCompute(new URL(request.url).pathname)) return app.fetch(request, env, ctx);
    return serveCompute(request, { env, waitUntil: (work) => ctx.waitUntil(work) });
  },
} satisfies ExportedHandler<SandboxEnv>;
