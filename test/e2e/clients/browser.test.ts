/** A browser's script may call the data plane from anywhere; the operator's API it may not. */
import { beforeAll, expect, test } from "vitest";
import type { Tenant } from "../../support/tenant.ts";
import { world } from "../../support/world.ts";

const { operator } = world();
let tenant: Tenant;
beforeAll(async () => {
  tenant = await operator.tenant();
});

const preflight = (path: string) =>
  fetch(`${operator.url}${path}`, {
    method: "OPTIONS",
    headers: {
      origin: "https://app.example",
      "access-control-request-method": "POST",
      "access-control-request-headers": "authorization,content-type,x-stainless-lang",
    },
  });

test("the preflight needs no key and allows what the SDK sends", async () => {
  const response = await preflight("/v1/chat/completions");
  expect([200, 204]).toContain(response.status);
  expect(response.headers.get("access-control-allow-origin")).toBe("*");
  expect(response.headers.get("access-control-allow-methods")).toContain("POST");
  const allowed = response.headers.get("access-control-allow-headers")?.toLowerCase();
  for (const header of ["authorization", "content-type", "x-stainless-lang"]) expect(allowed).toContain(header);
});

test("answers and errors can be read, and so can the headers that matter", async () => {
  const origin = { origin: "https://app.example" };
  for (const response of [
    await tenant.fetch("/v1/models", { headers: origin }),
    await tenant.post({ model: "no-such-model", messages: [{ role: "user", content: "Hi" }] }, { headers: origin }),
    await fetch(`${operator.url}/v1/models`, { headers: origin }),
    await fetch(`${operator.url}/v1/nothing`, { headers: origin }),
  ]) {
    expect(response.headers.get("access-control-allow-origin")).toBe("*");
    expect(response.headers.get("access-control-expose-headers")).toContain("x-request-id");
    expect(response.headers.get("access-control-allow-credentials")).toBeNull();
  }
});

test("the operator's API is closed to scripts of other origins", async () => {
  const response = await preflight("/admin/accounts");
  expect(response.headers.get("access-control-allow-origin")).toBeNull();
});
