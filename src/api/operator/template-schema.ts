/** Launch templates in bodies and answers. */
import * as z from "zod";
import { InstanceLaunch } from "../../core/compute/bodies.ts";
import { MAX_DEFAULTS_BYTES } from "../../core/launch-templates.ts";
import { name } from "../kit/fields.ts";

const fields = InstanceLaunch.shape;
const bytesOf = (value: unknown): number => new TextEncoder().encode(JSON.stringify(value)).length;

/** The fields of a launch that are nobody's own; each as a launch takes it. */
const Defaults = z
  .strictObject({
    region_id: fields.region_id.optional(),
    gpu_type: fields.gpu_type.optional(),
    gpu_count: fields.gpu_count.optional(),
    replicas: z.int().min(2).max(8).optional().meta({ description: "Of a cluster" }),
    container_image: fields.container_image.optional(),
    startup_command: z.string().max(MAX_DEFAULTS_BYTES).optional(),
    init_script: z.string().max(MAX_DEFAULTS_BYTES).optional().meta({ description: "Of an instance" }),
    service_port: z.int().min(1).max(65_535).optional(),
    ssh_enabled: z.boolean().optional().meta({ description: "Of an instance" }),
    interruptible: z.boolean().optional(),
    estimated_duration_hours: z.int().min(0).max(72).optional(),
  })
  .refine(
    (defaults) => bytesOf(defaults) <= MAX_DEFAULTS_BYTES,
    `must have at most ${MAX_DEFAULTS_BYTES} bytes as JSON`,
  )
  .meta({ id: "LaunchDefaults" });

export const TemplateBody = z
  .strictObject({
    name,
    description: z.string().max(1_000).nullable().optional(),
    account: z
      .string()
      .nullable()
      .optional()
      .meta({ description: "The one account that sees it; null: every account" }),
    defaults: Defaults,
  })
  .meta({ id: "ComputeTemplateBody" });

export const TemplateAnswer = z
  .object({
    id: z.int(),
    name: z.string(),
    description: z.string().nullable(),
    account: z.string().nullable(),
    defaults: Defaults,
  })
  .meta({ id: "ComputeTemplate" });
