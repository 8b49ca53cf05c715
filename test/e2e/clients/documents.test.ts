/**
 * The OpenAPI documents, as the real process serves them: valid, with named operations, and true in what they say of
 * errors.
 */
import { Validator } from "@seriousme/openapi-schema-validator";
import { describe, expect, test } from "vitest";
import { ADMIN_TOKEN } from "../../support/process.ts";
import { world } from "../../support/world.ts";

interface Operation {
  readonly operationId: string;
  readonly requestBody?: { readonly description: string };
  readonly responses: Readonly<Record<string, { readonly description: string; readonly content: Content }>>;
}
type Content = Readonly<Record<string, { readonly schema: { readonly $ref?: string } }>>;
interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
}
const DOCUMENTS = ["/openapi.json", "/admin/openapi.json"];
const { operator } = world();

async function documentAt(path: string): Promise<Document> {
  const response = await fetch(`${operator.url}${path}`, { headers: { authorization: `Bearer ${ADMIN_TOKEN}` } });
  expect(response.status).toBe(200);
  return (await response.json()) as Document;
}

const operationsOf = ({ paths }: Document) =>
  Object.entries(paths).flatMap(([path, calls]) =>
    Object.entries(calls).map(([method, operation]) => ({ name: `${method.toUpperCase()} ${path}`, ...operation })),
  );

async function operations(path: string): Promise<ReadonlyMap<string, Operation>> {
  return new Map(operationsOf(await documentAt(path)).map((operation) => [operation.name, operation]));
}

const statusesOf = (operation: Operation | undefined) => Object.keys(operation?.responses ?? {}).map(Number);

test.each(DOCUMENTS)("%s is a valid OpenAPI 3.1 document", async (path) => {
  const outcome = await new Validator().validate((await documentAt(path)) as unknown as Record<string, unknown>);
  expect(outcome.errors ?? []).toEqual([]);
  expect(outcome.valid).toBe(true);
});

test.each(DOCUMENTS)("%s names each operation, once and readably", async (path) => {
  const ids = operationsOf(await documentAt(path)).map(({ operationId }) => operationId);
  expect(ids.filter((id) => !/^[a-z][A-Za-z]{3,40}$/.test(id))).toEqual([]);
  expect(new Set(ids).size).toBe(ids.length);
});

test("the names of operations are stable", async () => {
  const names = async (path: string) => operationsOf(await documentAt(path)).map(({ operationId }) => operationId);
  expect(await names("/openapi.json")).toEqual(
    expect.arrayContaining(["chatCompletions", "modelsList", "getAccount", "createKey", "revokeKey", "getBalance"]),
  );
  expect(await names("/admin/openapi.json")).toEqual(
    expect.arrayContaining(["createAccount", "creditAccount", "auditAccount", "createKey", "putModel", "reportUsage"]),
  );
});

describe("limits of bodies", () => {
  const limitOf = (operation: Operation | undefined) => [
    operation?.requestBody?.description,
    operation?.responses["413"]?.description,
  ];
  const said = (megabytes: number) => [`At most ${megabytes} MB`, `The body is too large. At most ${megabytes} MB`];

  test("are 20 MB of JSON and 26 MB of a form or a custom engine's bytes", async () => {
    const calls = await operations("/openapi.json");
    expect(limitOf(calls.get("POST /v1/chat/completions"))).toEqual(said(20));
    expect(limitOf(calls.get("POST /v1/audio/transcriptions"))).toEqual(said(26));
    expect(limitOf(calls.get("POST /inference-instances/{instance_id}/proxy/{custom_api_path}"))).toEqual(said(26));
    expect(limitOf(calls.get("POST /account/keys"))).toEqual(said(1));
    expect(limitOf((await operations("/admin/openapi.json")).get("POST /admin/accounts"))).toEqual(said(1));
  });

  test("hold: a body above the operator's is 413", async () => {
    const { status } = await operator.ask("POST", "/accounts", { id: "big", name: "x".repeat(1_000_001) });
    expect(status).toBe(413);
  });
});

describe("errors", () => {
  test("402, 403 and 429 stand at every call that can cost or be limited", async () => {
    const calls = await operations("/openapi.json");
    for (const [name, operation] of calls) {
      if (name === "GET /platform/gpu-prices") continue;
      const ours = /^\w+ \/(account|billing|v1\/models)/.test(name);
      const compute = /^\w+ \/(gpu-|storage\/|cloud-|shared-|ssh-|container-|compute-)/.test(name);
      const model = [400, 401, 402, 403, 404, 429, 500, 502, 503, 504];
      if (name.includes("/service/")) {
        // It costs nothing and has no limit of calls; what else its service answers is not known.
        expect([name, statusesOf(operation)]).toEqual([name, [200, 400, 401, 403, 404, 409, 500, 502, 503, 504]]);
        continue;
      }
      const least = ours ? [401, 429, 500, 503] : compute ? [400, 401, 402, 403, 409, 429, 500, 503] : model;
      expect([name, statusesOf(operation)]).toEqual([name, expect.arrayContaining(least)]);
    }
    expect(statusesOf(calls.get("POST /account/keys"))).toEqual(expect.arrayContaining([403, 409, 413]));
    expect(statusesOf(calls.get("GET /billing/transactions"))).toContain(403);
  });

  test("409 stands where an Idempotency-Key is taken", async () => {
    const calls = await operations("/openapi.json");
    expect(statusesOf(calls.get("POST /v1/responses"))).toContain(409);
    expect(statusesOf(calls.get("POST /v1/images/generations"))).toContain(409);
    expect(statusesOf(calls.get("POST /v1/chat/completions"))).not.toContain(409);
  });

  test("the operator's calls say 409 where they change something and 404 where they name something", async () => {
    const calls = await operations("/admin/openapi.json");
    expect(statusesOf(calls.get("POST /admin/accounts"))).toEqual([201, 400, 401, 403, 409, 413, 500, 503]);
    expect(statusesOf(calls.get("GET /admin/accounts/{account}"))).toEqual([200, 400, 401, 403, 404, 500, 503]);
  });

  test("have the shape of their family", async () => {
    const calls = await operations("/openapi.json");
    const shapeOf = (name: string) => calls.get(name)?.responses["401"]?.content["application/json"]?.schema.$ref;
    expect(shapeOf("POST /v1/embeddings")).toBe("#/components/schemas/Error");
    expect(shapeOf("POST /v1/video/generations")).toBe("#/components/schemas/VideoError");
    expect(shapeOf("GET /billing/balance")).toBe("#/components/schemas/ComputeError");
  });

  test("what is answered is documented", async () => {
    const call = (await operations("/openapi.json")).get("POST /v1/chat/completions");
    const tenant = await operator.tenant({ balance_usd: 0 });
    const model = await operator.instance(tenant);
    const other = await operator.key(tenant.account, { models: ["other"] });
    const none = await operator.key(tenant.account, { rpm_limit: 0 });
    const ask = async (key: string, body: unknown) => {
      const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
      const init = { method: "POST", headers, body: JSON.stringify(body) };
      const response = await fetch(`${operator.url}/v1/chat/completions`, init);
      await response.text();
      return response.status;
    };
    const chat = { model, messages: [{ role: "user", content: "Hi" }] };
    const answered = [
      await ask(tenant.key, {}),
      await ask("sk-tg-none", chat),
      await ask(tenant.key, chat),
      await ask(other.key, chat),
      await ask(tenant.key, { ...chat, model: "no-such" }),
      await ask(none.key, chat),
    ];
    expect(answered).toEqual([400, 401, 402, 403, 404, 429]);
    expect(statusesOf(call)).toEqual(expect.arrayContaining(answered));
  });
});
