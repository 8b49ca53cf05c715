/**
 * The OpenAPI documents, made ahead from the rows that validate and serve: `scripts/assets.ts` writes them to the
 * static assets. Nothing that the Worker runs may import this folder; it would bring zod's JSON Schema into the bundle.
 */
import { OPERATOR_DOCUMENT, TENANT_DOCUMENT } from "../kit/assets.ts";
import { adminApp } from "../operator/index.ts";
import { selfServiceApp } from "../tenant/index.ts";
import { openApi } from "./openapi.ts";
import { tableRoutes } from "./tenant-routes.ts";

/** What a tenant can call, so that one document has all that a key can do. Public: it holds nothing private. */
const tenantDocument = () =>
  openApi([...tableRoutes(), ...selfServiceApp().routes], {
    title: "Tollgate",
    description: "An OpenAI-compatible inference service, and the holder's own keys, limits, usage and balance.",
    bearer: "A virtual key, sk-tg-...",
  });

const operatorDocument = () =>
  openApi(adminApp().routes, {
    title: "Tollgate, the operator's API",
    description:
      "Accounts, keys, routing and prices of a Tollgate gateway. JSON, snake_case; USD in as decimal strings or " +
      "numbers, out as numbers. Unknown fields are refused.",
    bearer: "ADMIN_TOKEN, or an operator's own token",
  });

/** Each document's text by its path among the assets. */
export const documents = (): Readonly<Record<string, string>> => ({
  [TENANT_DOCUMENT]: JSON.stringify(tenantDocument()),
  [OPERATOR_DOCUMENT]: JSON.stringify(operatorDocument()),
});
