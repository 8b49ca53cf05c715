/** Instances in bodies and answers. */
import * as z from "zod";
import { modelName } from "../kit/fields.ts";

const INSTANCE_KINDS = ["chat", "image", "embedding", "rerank", "custom"] as const;
/** Stored without the leading slash, as the contract writes it. A URL would drop `.` and `..` segments: refuse them. */
const PATH = /^\/?(?!.*\/\/)(?!(.*\/)?\.{1,2}(\/|$))[\w~-][\w.~/-]{0,500}$/;

const Hourly = z
  .strictObject({
    gpu_type: z.string().min(1).max(150).meta({ description: "The price book has it as `gpu/<type>`" }),
    gpu_count: z.int().min(1).max(8).meta({ description: "Of each replica" }),
    replicas: z.int().min(1).max(64),
  })
  .meta({ id: "HourlyPlan" });

const fields = {
  account: z.string(),
  name: modelName.refine((name) => !name.includes(":"), "must not have a `:`"),
  upstreams: z
    .array(z.string().min(1).max(63))
    .min(1)
    .max(32)
    .refine((ids) => new Set(ids).size === ids.length, "must not name an upstream twice"),
};
const settings = {
  kind: z.enum(INSTANCE_KINDS).optional().meta({ description: "`chat` where absent" }),
  custom_api_path: z
    .string()
    .regex(PATH, "must be a path such as predict or v2/predict, without `..`, query or fragment")
    .nullable()
    .optional()
    .meta({ description: "The path that a `custom` instance serves; needed for those alone" }),
  hourly: Hourly.optional().meta({
    description: "The account pays these GPUs by the hour, a day held ahead, and nothing for calls; DELETE ends it",
  }),
};
export const InstanceBody = z.strictObject({ ...fields, ...settings }).meta({ id: "InstanceBody" });
export const InstancePatch = z
  .strictObject({ ...z.object(fields).partial().shape, ...settings })
  .meta({ id: "InstancePatch" });

export const InstanceAnswer = z
  .object({
    instance_id: z.int(),
    model: z.string().meta({ description: "What tenants call, and the name of its price book row" }),
    account: z.string(),
    name: z.string(),
    upstreams: z.array(z.string()),
    kind: z.enum(INSTANCE_KINDS),
    custom_api_path: z.string().nullable(),
    hourly: Hourly.nullable(),
  })
  .meta({ id: "Instance" });
