/** Routes of GPU instances and GPU clusters. */
import { z } from "zod";
import { clusterDocument, instanceDocument, replicaDocuments, storageDocument, wrappedInstance } from "./documents.ts";
import { pullCredential } from "./images.ts";
import { ClusterLaunch, clusterWanted, InstanceLaunch, instanceWanted, launch, Rebuild } from "./launch.ts";
import { end, isBilled, rebuild, START_MS } from "./lifecycle.ts";
import { priceOf } from "./money.ts";
import { hold } from "./purse.ts";
import { isOver, type Machine, type Storage } from "./records.ts";
import { type Answer, answer, type Call, type Checked, type Route, refuse, route } from "./route.ts";
import { LISTED_DAYS } from "./storage-routes.ts";
import { readLaunch } from "./templates.ts";

const Hours = z.object({ hours: z.int().min(1).max(72) });
/** A launch is checked with its template's defaults. */
const AnyObject = z.record(z.string(), z.unknown());
const Replicas = z.object({ replicas: z.int().min(1).max(8) });

/** Live ones, and those that ended in the last days, newest first. */
function listed({ world, account, nowMs }: Call, kind: Machine["kind"]): Machine[] {
  const since = nowMs - LISTED_DAYS * world.lengths.dayMs;
  return world
    .list(account, kind)
    .filter((one) => one.phase !== "lost" && !one.hidden && (!isOver(one) || (one.endedMs ?? since) > since))
    .reverse();
}

function launched(call: Call, result: Checked<Machine>): Answer {
  if (!result.ok) return result.answer;
  const machine = result.value;
  return answer(202, documentOf(call, machine), machine.id);
}

const documentOf = ({ world, nowMs, origin }: Call, machine: Machine) =>
  machine.kind === "instance" ? instanceDocument(world, machine, nowMs) : clusterDocument(machine, origin);

const shown = (call: Call, status: number, machine: Machine): Answer =>
  answer(status, documentOf(call, machine), machine.id);

/** Billing ends now. */
function terminate(call: Call, machine: Machine): Answer {
  const stopping = machine.phase === "stopping";
  if (machine.phase !== "running") {
    const status = stopping
      ? "already being terminated"
      : `${instanceDocument(call.world, machine, call.nowMs).status}`;
    return refuse(409, `The ${machine.kind} is ${status}. Only a running one can be terminated.`);
  }
  machine.endAskedMs = call.nowMs;
  end(call.world, machine, call.nowMs, "user");
  return shown(call, 202, machine);
}

function extend(call: Call, machine: Machine, hours: number): Answer {
  const { world, account } = call;
  if (machine.hours === null) {
    return refuse(400, "The instance has no end time, so there is nothing to extend. It runs until it is terminated.");
  }
  if (machine.phase !== "pending" && !isBilled(machine)) {
    return refuse(409, `The ${machine.kind} is not running, so it cannot be extended.`);
  }
  const { hourMs } = world.lengths;
  if (!hold(world, account, machine, priceOf(machine.rateNanoUsd, hours * hourMs, hourMs))) {
    return refuse(402, "The balance does not cover the hold of these hours. Add credit or extend by less.");
  }
  machine.hours += hours;
  world.touch(machine);
  return shown(call, 200, machine);
}

function change(call: Call, machine: Machine, body: z.output<typeof Rebuild>): Answer {
  const { world, account, nowMs } = call;
  const image = body.container_image ?? machine.image;
  const pulledAs = pullCredential(world, account, image);
  if (!pulledAs.ok) return pulledAs.answer;
  if (machine.phase !== "running") return refuse(409, "The instance is not running, so it cannot be rebuilt.");
  machine.image = image;
  machine.pulledAs = pulledAs.value;
  if (body.startup_command !== undefined) machine.startupCommand = body.startup_command;
  if (body.init_script !== undefined) machine.initScript = body.init_script;
  if (body.service_port !== undefined) machine.servicePort = body.service_port;
  rebuild(world, machine, nowMs);
  return shown(call, 200, machine);
}

function hide(call: Call, machine: Machine): Answer {
  if (machine.phase !== "stopped" && machine.phase !== "failed") {
    return refuse(409, "Only a terminated or failed instance can be hidden. Terminate it first.");
  }
  machine.hidden = true;
  call.world.touch(machine);
  return answer(204, null, machine.id);
}

function scale({ world, nowMs }: Call, cluster: Machine, replicas: number): Answer {
  if (cluster.phase !== "running") return refuse(409, "The cluster is not running, so it cannot be scaled.");
  const region = world.region(cluster.regionId);
  const more = (replicas - cluster.replicas) * cluster.gpus;
  const free = region ? world.freeGpus(region) : 0;
  if (more > free) return refuse(409, `Scaling up needs ${more} free GPUs and ${free} are free. Try again later.`);
  if (more > 0) cluster.scaling = { fromReplica: cluster.replicas, upMs: nowMs + START_MS };
  cluster.replicas = replicas;
  world.touch(cluster);
  return answer(200, { id: cluster.id, replicas }, cluster.id);
}

export const MACHINES: readonly Route[] = [
  route("GET /gpu-instances", {
    lists: true,
    serve: (call) =>
      answer(
        200,
        listed(call, "instance").map((one) => documentOf(call, one)),
      ),
  }),
  route("POST /gpu-instances", {
    body: AnyObject,
    serve: (call, raw) => {
      const read = readLaunch(call, raw, InstanceLaunch);
      return read.ok ? launched(call, launch(call, instanceWanted(read.value))) : read.answer;
    },
  }),
  route("GET /gpu-instances/:id", {
    on: "instance",
    serve: ({ world, nowMs }, _, instance) => answer(200, wrappedInstance(world, instance, nowMs), instance.id),
  }),
  route("POST /gpu-instances/:id/terminate", {
    on: "instance",
    serve: (call, _, instance) => terminate(call, instance),
  }),
  route("POST /gpu-instances/:id/extend", {
    on: "instance",
    body: Hours,
    serve: (call, { hours }, instance) => extend(call, instance, hours),
  }),
  route("PATCH /gpu-instances/:id", {
    on: "instance",
    body: Rebuild,
    serve: (call, body, instance) => change(call, instance, body),
  }),
  route("DELETE /gpu-instances/:id", { on: "instance", serve: (call, _, instance) => hide(call, instance) }),

  route("GET /gpu-clusters", {
    lists: true,
    serve: (call) =>
      answer(
        200,
        listed(call, "cluster").map((one) => documentOf(call, one)),
      ),
  }),
  route("POST /gpu-clusters", {
    body: AnyObject,
    serve: (call, raw) => {
      const read = readLaunch(call, raw, ClusterLaunch);
      return read.ok ? launched(call, launch(call, clusterWanted(read.value))) : read.answer;
    },
  }),
  route("GET /gpu-clusters/:id", { on: "cluster", serve: (call, _, cluster) => shown(call, 200, cluster) }),
  route("POST /gpu-clusters/:id/scale", {
    on: "cluster",
    body: Replicas,
    serve: (call, { replicas }, cluster) => scale(call, cluster, replicas),
  }),
  route("POST /gpu-clusters/:id/extend", {
    on: "cluster",
    body: Hours,
    serve: (call, { hours }, cluster) => extend(call, cluster, hours),
  }),
  route("GET /gpu-clusters/:id/replicas", {
    on: "cluster",
    serve: ({ nowMs }, _, cluster) => answer(200, replicaDocuments(cluster, nowMs), cluster.id),
  }),
  route("GET /gpu-clusters/:id/shared-filesystems", {
    on: "cluster",
    serve: ({ world }, _, cluster) => {
      const mounted = cluster.mounts.flatMap(({ id, mountPath }) => {
        const storage = world.resource(id) as Storage | undefined;
        return storage ? [{ ...storageDocument(world, storage), mount_path: mountPath }] : [];
      });
      return answer(200, mounted, cluster.id);
    },
  }),
  route("DELETE /gpu-clusters/:id", { on: "cluster", serve: (call, _, cluster) => terminate(call, cluster) }),
];
