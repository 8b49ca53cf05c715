import { env, exports } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { documents } from "../../src/api/documents/documents.ts";
import { OPERATOR_DOCUMENT, TENANT_DOCUMENT } from "../../src/api/kit/assets.ts";
import { createApp } from "../../src/app.ts";
import { SERVICE_ROWS } from "../../src/core/endpoints/compute/service-rows.ts";

interface Document {
  readonly paths: Record<string, Record<string, unknown>>;
}

function ask(path: string): Promise<Response> {
  const headers = { authorization: `Bearer ${env.ADMIN_TOKEN}` };
  return exports.default.fetch(new Request(`http://gateway.test${path}`, { headers }));
}

async function documentAt(path: string): Promise<Document> {
  const response = await ask(path);
  expect(response.status).toBe(200);
  return response.json();
}

/** `POST /v1/x/{}`: parameters by place, not by name. */
const nameless = (method: string, path: string): string =>
  `${method.toUpperCase()} ${path.replaceAll(/:\w+(\{[^}]*\})?|\{\w+\}/g, "{}")}`;

describe("the OpenAPI documents", () => {
  it("have every route of the Worker between them, and no other", async () => {
    const documents = await Promise.all(["/openapi.json", "/admin/openapi.json"].map(documentAt));
    const documented = documents.flatMap(({ paths }) =>
      Object.entries(paths).flatMap(([path, calls]) => Object.keys(calls).map((method) => nameless(method, path))),
    );
    const served = createApp()
      .routes.filter(
        ({ method, path }) =>
          method !== "ALL" &&
          !path.startsWith("/console/") &&
          !["/openapi.json", "/healthz", "/metrics"].includes(path),
      )
      .map(({ method, path }) => nameless(method, path));
    // Service paths are matched by their URL as sent, with any method.
    const services = Object.values(SERVICE_ROWS).flatMap(({ path }) =>
      ["GET", "POST", "PUT", "PATCH", "DELETE"].map((method) => nameless(method, path)),
    );
    expect([...new Set(documented)].sort()).toEqual([...new Set([...served, ...services])].sort());
  });

  it("are what the rows in the code make, with the headers of an API's answer", async () => {
    const made = documents();
    const served = { "/openapi.json": made[TENANT_DOCUMENT], "/admin/openapi.json": made[OPERATOR_DOCUMENT] };
    for (const [path, text] of Object.entries(served)) {
      const response = await ask(path);
      expect(await response.text()).toBe(text);
      expect(response.headers.get("content-type")).toBe("application/json");
      expect(response.headers.get("cache-control")).toBe("no-store");
      expect(response.headers.get("access-control-allow-origin")).toBe(path === "/openapi.json" ? "*" : null);
    }
  });

  it("have no second address: what is among the static assets is no path of the Worker", async () => {
    for (const path of [TENANT_DOCUMENT, OPERATOR_DOCUMENT, "/documents", "/documents/", "/assets/documents/tenant"]) {
      const response = await ask(path);
      expect(response.status).toBe(404);
      expect(await response.json()).toMatchObject({ error: { code: "not_found" } });
    }
  });

  it("tell nobody but the operator about the operator's API", async () => {
    const response = await exports.default.fetch(new Request("http://gateway.test/admin/openapi.json"));
    expect(response.status).toBe(401);
    const { paths } = await documentAt("/openapi.json");
    expect(Object.keys(paths).filter((path) => path.startsWith("/admin"))).toEqual([]);
  });
});
