/** The rules that launch an instance or a cluster. */
import type * as z from "zod/mini";
import type { Refused } from "../outcome.ts";
import { attachmentsOf } from "./attachments.ts";
import type { ClusterLaunch, InstanceLaunch } from "./bodies.ts";
import { type Decision, type Facts, gpuRefusal, invalid, moneyRefusal, type Region } from "./facts.ts";
import { imageRefusal } from "./image-rules.ts";
import { hasRoomFor, tooManyKeys } from "./key-rules.ts";
import { launchHold, openMachine } from "./machine-rental.ts";
import type { Rate } from "./rental.ts";
import { type Launched, type MachineKind, type MachineRow, NOTHING_SEEN, type Setup } from "./resource.ts";
import { formatTag } from "./tag.ts";

type InstanceBody = z.output<typeof InstanceLaunch>;
type ClusterBody = z.output<typeof ClusterLaunch>;

/** What is offered: regions, and prices by GPU type. */
export type Offers = Pick<Facts, "regions" | "gpuPrices">;
interface Wanted {
  readonly region_id: string;
  /** Undefined: whatever the region has, as clusters take it. */
  readonly gpu_type?: string | undefined;
  readonly gpu_count: number;
  readonly interruptible?: boolean | undefined;
}

/** The region and the rate of what a launch or a quote asks for. */
export function offered(offers: Offers, wanted: Wanted, replicas: number): { region: Region; rate: Rate } | Refused {
  const region = offers.regions.find(({ id }) => id === wanted.region_id);
  if (!region) {
    return invalid("region_id", "is not a region that is offered. GET /gpu-instances/availability lists them");
  }
  if (wanted.gpu_type !== undefined && region.gpuType !== wanted.gpu_type) {
    return invalid(
      "gpu_type",
      "is not offered in this region. Use a `gpu_type` and region of GET /gpu-instances/availability",
    );
  }
  if (wanted.gpu_count > region.gpusPerNode) {
    return invalid("gpu_count", `must be at most ${region.gpusPerNode} in this region`);
  }
  const rate = rateOf(offers, region.gpuType, wanted.gpu_count * replicas, wanted.interruptible ?? false);
  return "ok" in rate ? rate : { region, rate };
}

export function launchInstance(facts: Facts, body: InstanceBody): Decision {
  const offer = offered(facts, body, 1);
  if ("ok" in offer) return offer;
  const image = imageRefusal(facts, body.container_image);
  if (image) return image;
  if (body.ssh_enabled && !body.ssh_public_key) {
    return invalid("ssh_public_key", "is required with `ssh_enabled`: one OpenSSH public key line");
  }
  if (body.ssh_public_key && !hasRoomFor(facts.rows, facts.sshFingerprint)) return tooManyKeys();
  return launch(facts, offer, body, {
    kind: "instance",
    replicas: 1,
    hours: body.estimated_duration_hours || null,
    initScript: body.init_script ?? null,
    sshPublicKey: body.ssh_public_key || null,
  });
}

export function launchCluster(facts: Facts, body: ClusterBody): Decision {
  const offer = offered(facts, body, body.replicas);
  if ("ok" in offer) return offer;
  const image = imageRefusal(facts, body.container_image);
  if (image) return image;
  return launch(facts, offer, body, {
    kind: "cluster",
    replicas: body.replicas,
    hours: body.estimated_duration_hours,
    initScript: null,
    sshPublicKey: null,
  });
}

interface Shape {
  readonly kind: MachineKind;
  readonly replicas: number;
  readonly hours: number | null;
  readonly initScript: string | null;
  readonly sshPublicKey: string | null;
}

function launch(
  facts: Facts,
  { region, rate }: { region: Region; rate: Rate },
  body: InstanceBody | ClusterBody,
  shape: Shape,
): Decision {
  const gpus = body.gpu_count * shape.replicas;
  const { nextId: id, nowMs, account, deployment, random, by } = facts;
  const storage = attachmentsOf(facts, body, id);
  if ("ok" in storage) return storage;
  const refusal =
    gpuRefusal(facts, gpus) ??
    storage.conflict ??
    moneyRefusal(facts, launchHold(rate, shape.hours) + storage.holdNanoUsd);
  if (refusal) return refusal;
  const opened = openMachine(rate, shape.hours);
  const setup: Setup = {
    containerImage: body.container_image,
    startupCommand: body.startup_command ?? null,
    initScript: shape.initScript,
    servicePort: body.service_port ?? null,
  };
  const launched: Launched = {
    name: body.name ?? `${shape.kind}-${id}`,
    regionId: region.id,
    gpuType: region.gpuType,
    gpuCount: body.gpu_count,
    interruptible: body.interruptible ?? false,
    sshEnabled: "ssh_enabled" in body && body.ssh_enabled === true,
    sshPublicKey: shape.sshPublicKey,
    sshFingerprint: shape.sshPublicKey === null ? null : facts.sshFingerprint,
    templateId: body.template_id ?? null,
    drives: storage.drives,
    filesystems: storage.filesystems,
  };
  const row: MachineRow = {
    kind: shape.kind,
    id,
    tag: formatTag({ deployment, account, id, random }),
    by,
    createdAtMs: nowMs,
    changedAtMs: nowMs,
    upstreamId: null,
    create: "unknown",
    hiddenAtMs: null,
    launched,
    wants: { end: null, replicas: shape.replicas, setup, rebuild: null },
    seen: NOTHING_SEEN,
    sending: null,
    rental: opened.rental,
  };
  return { ok: true, row, acts: opened.acts, also: storage.made, call: { verb: "create" } };
}

/** Price and cost of the whole machine. A type is sold only if it has a price for this tier. */
function rateOf({ gpuPrices }: Offers, gpuType: string, gpus: number, interruptible: boolean): Rate | Refused {
  const unit = interruptible ? "interruptible_gpu_hours" : "gpu_hours";
  const prices = gpuPrices.get(gpuType);
  const price = prices?.price[unit] ?? 0;
  if (price === 0) {
    return interruptible && prices?.price.gpu_hours
      ? invalid(
          "interruptible",
          "is not sold for this GPU type: GET /platform/gpu-prices lists no rate for it. Leave it out",
        )
      : invalid("gpu_type", "has no price yet. GET /platform/gpu-prices lists what is sold");
  }
  return { unit, size: gpus, priceNanoUsd: price * gpus, costNanoUsd: (prices?.cost[unit] ?? 0) * gpus };
}
