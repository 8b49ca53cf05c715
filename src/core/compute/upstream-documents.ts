/**
 * Parses upstream's documents tolerantly: unknown fields are dropped, a field of a wrong type counts as absent, and
 * text length is limited. A document needs only id, name and status; without them it is ignored.
 */
import { parseObject } from "../formats/json-fields.ts";
import { NANO_PER_USD } from "../pricing/money.ts";
import type { MachineDocument } from "./observe.ts";
import { END_REASONS, type EndReason } from "./rental.ts";
import type { SshAccess } from "./resource.ts";
import type { StorageDocument } from "./storage-life.ts";

const MOST_TEXT = 2_000;
/** The range of plausible times; others count as absent. */
const FIRST_MS = Date.UTC(2020, 0, 1);
const LAST_MS = Date.UTC(2100, 0, 1);
/** A machine's plausible rate: what it costs for months stays a whole number. */
const MOST_RATE_NANO_USD = 10_000 * NANO_PER_USD;

/** The contract's statuses of instances and clusters, and what each means for the row. */
const STATES: Readonly<Record<string, { state: MachineDocument["state"]; reason?: EndReason }>> = {
  pending: { state: "pending" },
  running: { state: "running" },
  degraded: { state: "degraded" },
  preempted: { state: "preempted" },
  terminating_requested: { state: "stopping" },
  terminating_low_balance: { state: "stopping" },
  terminated: { state: "ended" },
  stopped: { state: "ended" },
  failed: { state: "ended", reason: "failed" },
};

/** Parses an instance or cluster, also in the wrapper of `GET /gpu-instances/{id}`. Undefined if it cannot be read. */
export function readMachine(body: string): MachineDocument | undefined {
  const outer = parseObject(body);
  const inner = outer?.instance;
  const fields = typeof inner === "object" && inner !== null ? (inner as Record<string, unknown>) : outer;
  if (!fields) return undefined;
  const upstreamId = count(fields.id);
  const tag = text(fields.name);
  const known =
    typeof fields.status === "string" && Object.hasOwn(STATES, fields.status) ? STATES[fields.status] : null;
  if (upstreamId === null || tag === null || !known) return undefined;
  const reason = END_REASONS.find((one) => one === fields.termination_reason) ?? null;
  const hours = count(fields.estimated_duration_hours);
  return {
    upstreamId,
    tag,
    state: known.state,
    reason: known.reason ?? reason,
    rateNanoUsd: nanoUsd(fields.hourly_rate_usd),
    startedAtMs: time(fields.started_at),
    terminatedAtMs: time(fields.terminated_at),
    hours: hours === 0 ? null : hours,
    replicas: count(fields.replicas),
    ssh: sshOf(fields),
    jupyterUrl: text(fields.jupyter_url),
  };
}

/** The contract's statuses of storage. Unpaid days of the operator's account change nothing for the row. */
const STORAGE_STATES: Readonly<Record<string, StorageDocument["state"]>> = {
  pending: "pending",
  available: "available",
  in_use: "available",
  suspended: "available",
  deleting: "deleting",
  deleted: "deleted",
  lost: "lost",
};

/** Parses a drive or filesystem. Undefined if it cannot be read. */
export function readStorage(body: string): StorageDocument | undefined {
  const { id, name, status, created_at, updated_at } = parseObject(body) ?? {};
  const upstreamId = count(id);
  const tag = text(name);
  const state =
    typeof status === "string" && Object.hasOwn(STORAGE_STATES, status) ? STORAGE_STATES[status] : undefined;
  if (upstreamId === null || tag === null || !state) return undefined;
  return { upstreamId, tag, state, createdAtMs: time(created_at), updatedAtMs: time(updated_at) };
}

/** The name of any listed document: a tag, if it is ours. */
export const readName = (body: string): string | undefined => text(parseObject(body)?.name) ?? undefined;

function sshOf(fields: Record<string, unknown>): SshAccess | null {
  const access = {
    host: text(fields.ssh_tunnel_host),
    port: count(fields.ssh_tunnel_port),
    ready: fields.ssh_ready === true,
    command: text(fields.ssh_command),
  };
  return access.host === null && access.port === null && !access.ready && access.command === null ? null : access;
}

const count = (value: unknown): number | null =>
  typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : null;

const text = (value: unknown): string | null =>
  typeof value === "string" && value !== "" && value.length <= MOST_TEXT ? value : null;

/** An ISO 8601 time; a text without a zone is UTC. */
function time(value: unknown): number | null {
  if (typeof value !== "string" || value.length > 40) return null;
  const zoned = /(?:Z|[+-]\d{2}:?\d{2})$/i.test(value) ? value : `${value}Z`;
  const atMs = Date.parse(zoned);
  return atMs >= FIRST_MS && atMs <= LAST_MS ? atMs : null;
}

/** USD as a JSON number, to the nearest nano-USD. */
function nanoUsd(value: unknown): number | null {
  if (typeof value !== "number" || !Number.isFinite(value) || value < 0) return null;
  const nano = Math.round(value * NANO_PER_USD);
  return nano <= MOST_RATE_NANO_USD ? nano : null;
}
