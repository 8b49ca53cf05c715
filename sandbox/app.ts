/** The routes: each endpoint as it is, and below `/regions/{region}` pinned to that region. */
import { type Context, Hono } from "hono";
import { control } from "./control.ts";
import { ENDPOINTS } from "./endpoints.ts";
import type { SandboxEnv } from "./env.ts";
import { files } from "./files.ts";
import { refusalBody } from "./refusal.ts";
import { type Located, serve } from "./serve.ts";

type App = { Bindings: SandboxEnv };

const REGION_PREFIX = /^\/regions\/[^/]+(?=\/)/;

export const app = new Hono<App>();

app.route("/_sandbox", control);
app.route("/files", files);

for (const endpoint of ENDPOINTS) {
  for (const prefix of ["", "/regions/:region"]) {
    app.on(endpoint.method, prefix + endpoint.path, (c) =>
      serve(endpoint, c.req.raw, locate(c), { env: c.env, waitUntil: (work) => c.executionCtx.waitUntil(work) }),
    );
  }
}

app.notFound((c) => {
  const message = `There is no ${c.req.method} ${c.req.path}.`;
  return c.json(refusalBody({ status: 404, code: "not_found", message, param: null }, "openai"), 404);
});

app.onError((error, c) => {
  const refusal = { status: 500, code: "internal_error", message: `The sandbox failed: ${error.message}`, param: null };
  return c.json(refusalBody(refusal, "openai"), 500);
});

function locate(c: Context<App>): Located {
  const params: Readonly<Record<string, string>> = c.req.param();
  const pinned = params.region ?? c.req.header("x-sandbox-region") ?? null;
  return { path: c.req.path.replace(REGION_PREFIX, ""), pinned, params };
}
