/** Launch templates in bodies and answers. */
import * as z from "zod/mini";
import { InstanceLaunch } from "../../core/compute/bodies.ts";
import { MAX_DEFAULTS_BYTES } from "../../core/launch-templates.ts";
import { whole } from "../../core/shapes.ts";
import { name } from "../kit/fields.ts";

const fields = InstanceLaunch.shape;
const bytesOf = (value: unknown): number => new TextEncoder().encode(JSON.stringify(value)).length;

/** The fields of a launch that are nobody's own; each as a launch takes it. */
const Defaults = z
  .strictObject({
    region_id: z.optional(fields.region_id),
    gpu_type: z.optional(fields.gpu_type),
    gpu_count: z.optional(fields.gpu_count),
    replicas: z.optional(whole(2, 8)).check(z.describe("Of a cluster")),
    container_image: z.optional(fields.container_image),
    startup_command: z.optional(z.string().check(z.maxLength(MAX_DEFAULTS_BYTES))),
    init_script: z.optional(z.string().check(z.maxLength(MAX_DEFAULTS_BYTES))).check(z.describe("Of an instance")),
    service_port: z.optional(whole(1, 65_535)),
    ssh_enabled: z.optional(z.boolean()).check(z.describe("Of an instance")),
    interruptible: z.optional(z.boolean()),
    estimated_duration_hours: z.optional(whole(0, 72)),
  })
  .check(
    z.refine(
      (defaults) => bytesOf(defaults) <= MAX_DEFAULTS_BYTES,
      `must have at most ${MAX_DEFAULTS_BYTES} bytes as JSON`,
    ),
  )
  .register(z.globalRegistry, { id: "LaunchDefaults" });

export const TemplateBody = z
  .strictObject({
    name,
    description: z.nullish(z.string().check(z.maxLength(1_000))),
    account: z.nullish(z.string()).check(z.describe("The one account that sees it; null: every account")),
    defaults: Defaults,
  })
  .register(z.globalRegistry, { id: "ComputeTemplateBody" });

export const TemplateAnswer = z
  .object({
    id: z.int(),
    name: z.string(),
    description: z.nullable(z.string()),
    account: z.nullable(z.string()),
    defaults: Defaults,
  })
  .register(z.globalRegistry, { id: "ComputeTemplate" });
