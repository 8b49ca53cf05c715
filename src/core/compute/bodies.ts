/** The bodies of the compute API, with the contract's fields, ranges and lists. Other fields are dropped. */
import * as z from "zod";
import { list } from "../endpoints/list.ts";
import { MOST_REFERENCE } from "./registrations.ts";
import { readSshKey } from "./ssh.ts";

const name = z.string().min(1).max(200);
const longText = z.string().max(100_000);
const image = z.string().min(1).max(1_000);
const port = z.int().min(1).max(65_535);
const path = z
  .string()
  .min(2)
  .max(500)
  .regex(/^\/\S+$/, "must be an absolute path without spaces");
const SIZES_GB = [50, 100, 200, 300, 400, 500];
const sizeGb = z.int().refine((size) => SIZES_GB.includes(size), `must be one of ${SIZES_GB.join(", ")}`);
const optional = <Schema extends z.core.$ZodType>(schema: Schema) =>
  z.pipe(
    z.nullish(schema),
    z.transform((value) => value ?? undefined),
  );

/** One OpenSSH public key line, in its plain spelling. `none`: whether an empty text may stand for no key. */
const sshKey = (none: boolean) =>
  z.string().transform((text, context) => {
    if (none && text.trim() === "") return "";
    const read = readSshKey(text);
    if (read.ok) return read.key.line;
    context.addIssue({ code: "custom", message: read.must });
    return z.NEVER;
  });

const Attached = z.object({ id: z.int(), mount_path: path.nullish() });
const NewStorage = z.object({ name, size_gb: sizeGb, mount_path: path.nullish() });
const attached = z.nullish(list(Attached, { most: 8 }));
const created = z.nullish(list(NewStorage, { most: 8 }));

const shared = {
  region_id: z.string().min(1).max(200),
  container_image: image,
  name: optional(name),
  startup_command: optional(longText),
  service_port: optional(port),
  interruptible: optional(z.boolean()),
  template_id: optional(z.int()),
  shared_filesystems: attached,
  new_shared_filesystems: created,
};

export const InstanceLaunch = z.object({
  ...shared,
  gpu_type: z.string().min(1).max(200),
  gpu_count: z.int().min(1).max(8),
  estimated_duration_hours: optional(z.int().min(0).max(72)),
  init_script: optional(longText),
  ssh_enabled: optional(z.boolean()),
  ssh_public_key: optional(sshKey(true)),
  cloud_drives: attached,
  new_cloud_drives: created,
});

export const ClusterLaunch = z.object({
  ...shared,
  gpu_count: z.union([z.literal(1), z.literal(2), z.literal(4), z.literal(8)]),
  replicas: z.int().min(2).max(8),
  estimated_duration_hours: z.int().min(1).max(72),
});

export const InstancePatch = z
  .object({
    container_image: image.optional(),
    startup_command: longText.nullable().optional(),
    init_script: longText.nullable().optional(),
    service_port: port.nullable().optional(),
  })
  .refine((body) => Object.values(body).some((value) => value !== undefined), {
    message: "must name at least one of container_image, startup_command, init_script and service_port",
  });

export const NewSshKey = z.object({ name, public_key: sshKey(false) });
export const NewDrive = z.object({ name, region_id: z.string().min(1).max(200), size_gb: sizeGb });
export const NewFilesystem = NewDrive.extend({ mount_path: optional(path) });

const registryUrl = z.string().min(1).max(MOST_REFERENCE);
/** Words of its own, because errors quote wrong numbers. */
const SECRET = { error: "has to be a text of at most 16000 characters" };
const credential = {
  registry_username: optional(z.string().max(1_000)),
  registry_secret: optional(z.string(SECRET).max(16_000, SECRET)),
};

export const NewImage = z.object({ name, registry_url: registryUrl, ...credential });
export const ImageChange = z
  .object({ name: optional(name), registry_url: optional(registryUrl), ...credential })
  .refine((body) => Object.values(body).some((value) => value !== undefined), {
    message: "must name at least one of name, registry_url, registry_username and registry_secret",
  });

export const Hours = z.object({ hours: z.int().min(1).max(72) });
export const Replicas = z.object({ replicas: z.int().min(1).max(8) });

/** A launch as far as it has a price: storage that exists costs it nothing. `replicas`: a cluster's. */
export const QuoteBody = z.object({
  region_id: shared.region_id,
  gpu_type: optional(z.string().min(1).max(200)),
  gpu_count: z.int().min(1).max(8),
  replicas: optional(z.int().min(2).max(8)),
  interruptible: shared.interruptible,
  estimated_duration_hours: optional(z.int().min(0).max(72)),
  template_id: shared.template_id,
  new_cloud_drives: created,
  new_shared_filesystems: created,
});
