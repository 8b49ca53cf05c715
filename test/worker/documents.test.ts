import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { createApp } from "../../src/app.ts";
import { SERVICE_ROWS } from "../../src/core/endpoints/compute/service-rows.ts";

interface Document {
  readonly paths: Record<string, Record<string, unknown>>;
}

async function documentAt(path: string): Promise<Document> {
  const headers = { authorization: `Bearer ${env.ADMIN_TOKEN}` };
  const response = await exports.default.fetch(new Request(`http://gateway.test${path}`, { headers }));
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
      .routes.filter(({ method, path }) => method !== "ALL" && path !== "/openapi.json" && path !== "/healthz")
      .map(({ method, path }) => nameless(method, path));
    // Service paths are matched by their URL as sent, with any method.
    const services = Object.values(SERVICE_ROWS).flatMap(({ path }) =>
      ["GET", "POST", "PUT", "PATCH", "DELETE"].map((method) => nameless(method, path)),
    );
    expect([...new Set(documented)].sort()).toEqual([...new Set([...served, ...services])].sort());
  });

  it("are made once, whoever asks and however often", async () => {
    const stringify = vi.spyOn(JSON, "stringify");
    const made = () => stringify.mock.calls.filter(([value]) => (value as { openapi?: unknown })?.openapi).length;
    const app = createApp();
    const headers = { authorization: `Bearer ${env.ADMIN_TOKEN}` };
    for (const path of ["/openapi.json", "/admin/openapi.json"]) {
      const context = createExecutionContext();
      const ask = async () => (await app.request(path, { headers }, env, context)).text();
      const before = made();
      const first = await ask();
      expect(JSON.parse(first).openapi).toBe("3.1.0");
      for (let again = 0; again < 3; again++) expect(await ask()).toBe(first);
      expect(made() - before).toBe(1);
      await waitOnExecutionContext(context);
    }
  });

  it("tell nobody but the operator about the operator's API", async () => {
    const response = await exports.default.fetch(new Request("http://gateway.test/admin/openapi.json"));
    expect(response.status).toBe(401);
    const { paths } = await documentAt("/openapi.json");
    expect(Object.keys(paths).filter((path) => path.startsWith("/admin"))).toEqual([]);
  });
});
