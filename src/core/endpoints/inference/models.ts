/**
 * `GET /v1/models` and `GET /v1/models/{model}`: the models that a key may call. Answered locally; the upstream's list
 * is for the operator.
 */
import * as z from "zod/mini";
import type { ModelRow } from "../../pricing/prices.ts";
import { nothing } from "../body.ts";
import { endpoint } from "../endpoint.ts";

const Model = z
  .object({ id: z.string(), object: z.literal("model"), created: z.int(), owned_by: z.string() })
  .register(z.globalRegistry, { id: "Model" });

const present = (row: ModelRow): z.output<typeof Model> => ({
  id: row.model,
  object: "model",
  created: Math.floor(row.fromMs / 1000),
  owned_by: "tollgate",
});

export const listModels = endpoint({
  id: "models.list",
  method: "GET",
  path: "/v1/models",
  summary: "The models that the key may call",
  scope: null,
  flow: {
    kind: "local",
    answer: (_, { models }) => ({ ok: true, body: { object: "list", data: models.map(present) } }),
  },
  body: nothing,
  kinds: [],
  retry: "safe",
  errors: "openai",
  answerSchema: z.object({ object: z.literal("list"), data: z.array(Model) }),
});

export const getModel = endpoint({
  id: "models.get",
  method: "GET",
  path: "/v1/models/{model*}",
  summary: "One model that the key may call",
  scope: null,
  flow: {
    kind: "local",
    answer: ({ model }, { models }) => {
      const row = models.find((one) => one.model === model);
      if (row) return { ok: true, body: present(row) };
      return { ok: false, refusal: { kind: "model_not_found", model: model ?? "" }, missing: true };
    },
  },
  body: nothing,
  modelParam: "model",
  kinds: [],
  retry: "safe",
  errors: "openai",
  answerSchema: Model,
});
