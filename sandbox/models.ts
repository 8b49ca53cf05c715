/** `GET /v1/models` and `GET /v1/models/{model}`: the platform's models and the instances of the caller's account. */
import { PLATFORM_MODELS } from "./catalog.ts";
import type { Endpoint, Site } from "./endpoint.ts";
import { done, refuse } from "./refusal.ts";

/** The creation time reported for all models (Unix seconds). */
const CREATED = 1_767_225_600;

async function modelsOf(site: Site) {
  const owned = (await site.service.instances())
    .filter(({ account, kind }) => account === site.account && kind !== "custom")
    .map(({ name, instance_id, account }) => ({ id: `${name}:${instance_id}`, owned_by: account }));
  const platform = [...PLATFORM_MODELS.keys()].map((id) => ({ id, owned_by: "service" }));
  return [...platform, ...owned].map(({ id, owned_by }) => ({ id, object: "model", created: CREATED, owned_by }));
}

export const listModels: Endpoint = {
  method: "GET",
  path: "/v1/models",
  errors: "openai",
  prepare: () =>
    done({
      model: null,
      kinds: [],
      executes: false,
      answer: async (site) => ({ kind: "json", body: { object: "list", data: await modelsOf(site) }, usage: null }),
    }),
};

export const getModel: Endpoint = {
  method: "GET",
  path: "/v1/models/:model",
  errors: "openai",
  prepare: ({ params }) =>
    done({
      model: null,
      kinds: [],
      executes: false,
      answer: async (site) => {
        const model = (await modelsOf(site)).find(({ id }) => id === params.model);
        if (model) return { kind: "json", body: model, usage: null };
        return {
          kind: "refusal",
          ...refuse(404, "model_not_found", `There is no model \`${params.model}\`.`, "model"),
        };
      },
    }),
};
