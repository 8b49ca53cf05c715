/** Instances in bodies and answers. */
import * as z from "zod/mini";
import { characters, whole } from "../../core/shapes.ts";
import { modelName } from "../kit/fields.ts";

const INSTANCE_KINDS = ["chat", "image", "embedding", "rerank", "custom"] as const;
/** Stored without the leading slash, as the contract writes it. A URL would drop `.` and `..` segments: refuse them. */
const PATH = /^\/?(?!.*\/\/)(?!(.*\/)?\.{1,2}(\/|$))[\w~-][\w.~/-]{0,500}$/;

const Hourly = z
  .strictObject({
    gpu_type: characters(1, 150).check(z.describe("The price book has it as `gpu/<type>`")),
    gpu_count: whole(1, 8).check(z.describe("Of each replica")),
    replicas: whole(1, 64),
  })
  .register(z.globalRegistry, { id: "HourlyPlan" });

const fields = {
  account: z.string(),
  name: modelName.check(z.refine((name) => !name.includes(":"), "must not have a `:`")),
  upstreams: z.array(characters(1, 63)).check(
    z.minLength(1),
    z.maxLength(32),
    z.refine((ids) => new Set(ids).size === ids.length, "must not name an upstream twice"),
  ),
};
const settings = {
  kind: z.optional(z.enum(INSTANCE_KINDS)).check(z.describe("`chat` where absent")),
  custom_api_path: z
    .nullish(
      z.string().check(z.regex(PATH, "must be a path such as predict or v2/predict, without `..`, query or fragment")),
    )
    .check(z.describe("The path that a `custom` instance serves; needed for those alone")),
  hourly: z
    .optional(Hourly)
    .check(
      z.describe("The account pays these GPUs by the hour, a day held ahead, and nothing for calls; DELETE ends it"),
    ),
};
export const InstanceBody = z
  .strictObject({ ...fields, ...settings })
  .register(z.globalRegistry, { id: "InstanceBody" });
export const InstancePatch = z
  .strictObject({ ...z.partial(z.object(fields)).shape, ...settings })
  .register(z.globalRegistry, { id: "InstancePatch" });

export const InstanceAnswer = z
  .object({
    instance_id: z.int(),
    model: z.string().check(z.describe("What tenants call, and the name of its price book row")),
    account: z.string(),
    name: z.string(),
    upstreams: z.array(z.string()),
    kind: z.enum(INSTANCE_KINDS),
    custom_api_path: z.nullable(z.string()),
    hourly: z.nullable(Hourly),
  })
  .register(z.globalRegistry, { id: "Instance" });
