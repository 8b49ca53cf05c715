import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { closestCall, errorShapeAt, servedPath } from "../../../src/core/endpoints/served-path.ts";
import { ENDPOINTS } from "../../../src/core/endpoints/table.ts";

const CHAT = "/v1/chat/completions";

describe("a path that can mean one call only is served as that call", () => {
  it.each([
    ["POST", "//v1/chat/completions", CHAT],
    ["POST", "/v1//chat///completions", CHAT],
    ["POST", "/v1/chat/completions/", CHAT],
    ["POST", "/chat/completions", CHAT],
    ["POST", "//chat/completions//", CHAT],
    ["POST", "/v1/v1/chat/completions", CHAT],
    ["GET", "/models/", "/v1/models"],
    ["HEAD", "/models", "/v1/models"],
    ["GET", "/models/llama", "/v1/models/llama"],
    ["GET", "/responses/resp_1", "/v1/responses/resp_1"],
  ])("%s %s -> %s", (method, path, served) => {
    expect(servedPath(method, path)).toBe(served);
  });
});

describe("a path is left as it is", () => {
  it.each([
    ["POST", CHAT],
    ["GET", "/chat/completions"],
    ["POST", "/v1%2fchat%2fcompletions"],
    ["POST", "/%76%31/chat/completions"],
    ["POST", "/v1/./chat/completions"],
    ["POST", "/x/../chat/completions"],
    ["POST", "/V1/chat/completions"],
    ["POST", "\\v1\\chat\\completions"],
    ["GET", "//admin/accounts"],
    ["GET", "/v1/admin/accounts"],
    ["GET", "/admin/v1/models"],
    ["GET", "/account/"],
    ["GET", "/v1/account"],
    ["GET", "//billing/balance"],
    ["GET", "/platform/models/m/pricing/"],
    ["GET", "/gpu-instances/7"],
    ["GET", "/platform/gpu-prices"],
    ["POST", "//inference-instances/7/proxy/run"],
    ["POST", `/${"x".repeat(2_000)}`],
    ["GET", "/"],
    ["GET", "/v1"],
  ])("%s %s", (method, path) => {
    expect(servedPath(method, path)).toBe(path);
  });

  it("or becomes a call under /v1, and that is left as it is: whatever it is made of", () => {
    const segment = fc.constantFrom(
      "",
      "v1",
      "admin",
      "account",
      "chat",
      "completions",
      "models",
      "responses",
      "..",
      "%2f",
      "a",
    );
    const methods = fc.constantFrom("GET", "POST", "DELETE", "PUT");
    fc.assert(
      fc.property(methods, fc.array(segment, { maxLength: 6 }), (method, segments) => {
        const path = `/${segments.join("/")}`;
        const served = servedPath(method, path);
        if (served !== path) expect(served).toMatch(/^\/v1\/(chat|models|responses)/);
        expect(servedPath(method, served)).toBe(served);
      }),
      { numRuns: 1_000 },
    );
  });
});

describe("a path that is not served", () => {
  it.each([
    ["POST", "/v1/chat/completion", `POST ${CHAT}`],
    ["POST", "/V1/Chat/Completions", `POST ${CHAT}`],
    ["GET", "/v1/chat/completions", `POST ${CHAT}`],
    ["POST", "/v1/completions", `POST ${CHAT}`],
    ["POST", "/openai/v1/chat/completions", `POST ${CHAT}`],
    ["POST", "/v1/embedding", "POST /v1/embeddings"],
    ["GET", "/v1/model", "GET /v1/models"],
    ["POST", "/v1/audio/transcription", "POST /v1/audio/transcriptions"],
    ["GET", "/gpu-instances/", "GET /gpu-instances"],
    ["GET", "/v1/gpu-instances", "GET /gpu-instances"],
    ["POST", "//gpu-clusters", "POST /gpu-clusters"],
    ["POST", "/gpu-instances/1000/terminate/", "POST /gpu-instances/{id}/terminate"],
    ["DELETE", "/gpu-instances/1000/terminate", "POST /gpu-instances/{id}/terminate"],
    ["GET", "/GPU-Instances/availability", "GET /gpu-instances/availability"],
    ["GET", "/platform/gpu-price", "GET /platform/gpu-prices"],
  ])("%s %s is near to %s", (method, path, call) => {
    expect(closestCall(method, path)).toBe(call);
  });

  it("is near to nothing where it is far from all", () => {
    expect(closestCall("GET", "/wp-login.php")).toBeNull();
    expect(closestCall("GET", `/${"a/".repeat(5_000)}`)).toBeNull();
  });

  it.each([
    ["/gpu-instances/1/nothing", "compute"],
    ["/v1/gpu-clusters", "compute"],
    ["//storage/availability/", "compute"],
    ["/compute-templates/1/x", "compute"],
    ["/billing", "compute"],
    ["/platform/gpu-prices/x", "compute"],
    ["/platform/models/m", "openai"],
    ["/v1/nothing", "openai"],
    ["/gpu-instancesx", "openai"],
    ["/", "openai"],
  ])("%s has errors in the form of its family: %s", (path, shape) => {
    expect(errorShapeAt(path)).toBe(shape);
  });

  it("no call's own path is taken for another's", () => {
    for (const { method, path } of ENDPOINTS) {
      const filled = path.replace(/\{\w+\*?\}/g, "x");
      expect(servedPath(method, filled)).toBe(filled);
    }
  });
});
