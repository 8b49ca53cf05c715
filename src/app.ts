/**
 * The Worker's routes: one per entry of the endpoint table, the operator's and the tenants' own APIs, one place for
 * what nobody serves and one for what went wrong.
 */
import type { Context } from "hono";
import { cors } from "hono/cors";
import { HonoBase as Hono } from "hono/hono-base";
import { TrieRouter } from "hono/router/trie-router";
import { getPath } from "hono/utils/url";
import { consoleApp, rowPath, type Serve } from "./api/console/index.ts";
import { health } from "./api/health.ts";
import { documentResponse, TENANT_DOCUMENT } from "./api/kit/assets.ts";
import type { AdminBindings } from "./api/kit/context.ts";
import { metrics } from "./api/metrics.ts";
import { adminApp } from "./api/operator/index.ts";
import { serveGpuPrices } from "./api/tenant/gpu-prices.ts";
import { selfServiceApp } from "./api/tenant/index.ts";
import { servicePathOf } from "./core/compute/service-path.ts";
import { COMPUTE_ROWS } from "./core/endpoints/compute/compute-table.ts";
import { closestCall, errorShapeAt, isTenantPath, servedPath } from "./core/endpoints/served-path.ts";
import { ENDPOINTS } from "./core/endpoints/table.ts";
import { EXPOSED } from "./direct.ts";
import { serveCompute } from "./gateway/flows/compute.ts";
import { serveService } from "./gateway/flows/proxy.ts";
import { refuse, refuseCrashed } from "./gateway/http/responses.ts";
import { serve } from "./gateway/serve.ts";
import type { PlatformPorts } from "./platform/ports.ts";

/** What each request brings along: the pipeline's ports, and what the operator's side reads of the environment. */
export interface AppBindings {
  Bindings: AdminBindings["Bindings"] & { ports: PlatformPorts };
}

export function createApp(): Hono<AppBindings> {
  const app = new Hono<AppBindings>({
    strict: true,
    // The one place where a path is read for what it means: routes, keys and logs see only what comes out.
    getPath: (request, options) => {
      const path = getPath(request);
      // Only the console's own routes set `signedIn`: then the row behind `/console/api` is meant.
      return servedPath(request.method, options?.env?.signedIn ? rowPath(path) : path);
    },
  });
  app.router = new TrieRouter();
  // By the URL as it was sent: what a router decodes is not what goes upstream. No CORS: a pod's pages are not ours.
  app.use((context, next) => {
    const path = servicePathOf(context.req.raw.url);
    return path ? serveService(context.req.raw, path, context.env.ports) : next();
  });
  // Tenants' keys travel in headers, never in cookies, so their calls may come from any origin. Nothing else may.
  const browsers = cors({ origin: "*", exposeHeaders: EXPOSED, maxAge: 86_400 });
  app.use((context, next) => {
    const { path } = context.req;
    const open = !context.env.signedIn && (isTenantPath(path) || path === "/openapi.json");
    return open ? browsers(context, next) : next();
  });
  for (const endpoint of ENDPOINTS) {
    app.on(endpoint.method, toRoute(endpoint.path), (context) =>
      serve(context.req.raw, endpoint, context.req.param(), context.env.ports),
    );
  }
  for (const endpoint of COMPUTE_ROWS) {
    app.on(endpoint.method, toRoute(endpoint.path), (context) =>
      serveCompute(context.req.raw, endpoint, context.req.param(), context.env.ports),
    );
  }
  app.get("/platform/gpu-prices", (context) => serveGpuPrices(context.req.raw, context.env.ports));
  app.get("/healthz", (context) => health(context.env));
  app.get("/metrics", async (context) => (await metrics(context.env, context.req.raw)) ?? unknownRoute(context));
  app.route("/", selfServiceApp().app);
  app.get("/openapi.json", (context) => documentResponse(context.env.ASSETS, TENANT_DOCUMENT));
  app.route("/", adminApp().app);
  app.route(
    "/",
    consoleApp(() => app.fetch as Serve),
  );
  app.notFound(unknownRoute);
  app.onError((error, context) => {
    return refuseCrashed(error, errorShapeAt(context.req.path), context.env.ports);
  });
  return app;
}

/** The table's way of writing a path, in the router's. */
const toRoute = (path: string): string => path.replace(/\{(\w+)\*\}/g, ":$1{.+}").replace(/\{(\w+)\}/g, ":$1");

function unknownRoute(context: Context<AppBindings>): Response {
  const { method, path } = context.req;
  const refusal = {
    kind: "unknown_route",
    method,
    path: path.slice(0, 200),
    meant: closestCall(method, path),
  } as const;
  return refuse(refusal, context.env.ports.newCallId(), errorShapeAt(path));
}
