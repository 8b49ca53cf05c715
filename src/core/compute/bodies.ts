/** The bodies of the compute API, with the contract's fields, ranges and lists. Other fields are dropped. */
import * as z from "zod/mini";
import { list } from "../endpoints/list.ts";
import { characters, whole } from "../shapes.ts";
import { MOST_REFERENCE } from "./registrations.ts";
import { readSshKey } from "./ssh.ts";

const name = characters(1, 200);
const longText = z.string().check(z.maxLength(100_000));
const image = characters(1, 1_000);
const port = whole(1, 65_535);
const path = z
  .string()
  .check(
    z.minLength(2),
    z.maxLength(500),
    z.regex(
      /^(?!.*\/\.{1,2}(?:\/|$))\/[^\s\p{Cc}]+$/u,
      "must be an absolute path without spaces, control characters and `.` or `..` segments",
    ),
  );
const SIZES_GB = [50, 100, 200, 300, 400, 500];
const sizeGb = z.int().check(z.refine((size) => SIZES_GB.includes(size), `must be one of ${SIZES_GB.join(", ")}`));
const optional = <Schema extends z.core.$ZodType>(schema: Schema) =>
  z.pipe(
    z.nullish(schema),
    z.transform((value) => value ?? undefined),
  );

/** One OpenSSH public key line, in its plain spelling. `none`: whether an empty text may stand for no key. */
const sshKey = (none: boolean) =>
  z.pipe(
    z.string(),
    z.transform((text, context) => {
      if (none && text.trim() === "") return "";
      const read = readSshKey(text);
      if (read.ok) return read.key.line;
      context.issues.push({ code: "custom", message: read.must, input: text });
      return z.NEVER;
    }),
  );

const Attached = z.object({ id: z.int(), mount_path: z.nullish(path) });
const NewStorage = z.object({ name, size_gb: sizeGb, mount_path: z.nullish(path) });
const attached = z.nullish(list(Attached, { most: 8 }));
const created = z.nullish(list(NewStorage, { most: 8 }));

const shared = {
  region_id: characters(1, 200),
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
  gpu_type: characters(1, 200),
  gpu_count: whole(1, 8),
  estimated_duration_hours: optional(whole(0, 72)),
  init_script: optional(longText),
  ssh_enabled: optional(z.boolean()),
  ssh_public_key: optional(sshKey(true)),
  cloud_drives: attached,
  new_cloud_drives: created,
});

export const NO_DRIVES = "cannot be attached to a cluster: a drive mounts to one pod. Use a shared filesystem";

/** Refused and not dropped, or a tenant would keep its data on a disk that ends with the pod. */
const noDrives = z.optional(
  z
    .unknown()
    .check(z.refine((value) => (value ?? null) === null || (Array.isArray(value) && value.length === 0), NO_DRIVES)),
);

export const ClusterLaunch = z.object({
  ...shared,
  cloud_drives: noDrives,
  new_cloud_drives: noDrives,
  gpu_count: z.union([z.literal(1), z.literal(2), z.literal(4), z.literal(8)]),
  replicas: whole(2, 8),
  estimated_duration_hours: whole(1, 72),
});

export const InstancePatch = z
  .object({
    container_image: z.optional(image),
    startup_command: z.nullish(longText),
    init_script: z.nullish(longText),
    service_port: z.nullish(port),
  })
  .check(
    z.refine((body) => Object.values(body).some((value) => value !== undefined), {
      message: "must name at least one of container_image, startup_command, init_script and service_port",
    }),
  );

export const NewSshKey = z.object({ name, public_key: sshKey(false) });
export const NewDrive = z.object({ name, region_id: characters(1, 200), size_gb: sizeGb });
export const NewFilesystem = z.extend(NewDrive, { mount_path: optional(path) });

const registryUrl = characters(1, MOST_REFERENCE);
/** Words of its own, because errors quote wrong numbers. */
const SECRET = { error: "has to be a text of at most 16000 characters" };
const credential = {
  registry_username: optional(z.string().check(z.maxLength(1_000))),
  registry_secret: optional(z.string(SECRET).check(z.maxLength(16_000, SECRET))),
};

export const NewImage = z.object({ name, registry_url: registryUrl, ...credential });
export const ImageChange = z.object({ name: optional(name), registry_url: optional(registryUrl), ...credential }).check(
  z.refine((body) => Object.values(body).some((value) => value !== undefined), {
    message: "must name at least one of name, registry_url, registry_username and registry_secret",
  }),
);

export const Hours = z.object({ hours: whole(1, 72) });
export const Replicas = z.object({ replicas: whole(1, 8) });

/** A launch as far as it has a price: storage that exists costs it nothing. `replicas`: a cluster's. */
export const QuoteBody = z.object({
  region_id: shared.region_id,
  gpu_type: optional(characters(1, 200)),
  gpu_count: whole(1, 8),
  replicas: optional(whole(2, 8)),
  interruptible: shared.interruptible,
  estimated_duration_hours: optional(whole(0, 72)),
  template_id: shared.template_id,
  new_cloud_drives: created,
  new_shared_filesystems: created,
});
