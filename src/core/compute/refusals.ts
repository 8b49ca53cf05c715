/**
 * Why a compute call is refused: a closed union, and its table to HTTP. Each message tells the caller what to do. None
 * contains a name or id of upstream, or reveals whether another account has the resource.
 */
import { formatUsd } from "../pricing/money.ts";
import type { MachineKind, ResourceKind } from "./resource.ts";
import { SERVICE_FAULTS, type ServiceFault } from "./service-faults.ts";

/** Why a resource's state does not allow the call. */
export type StateFault =
  | "not_running"
  | "pending"
  | "preempted"
  | "rebuilding"
  | "ending"
  | "changing"
  | "not_ended"
  | "attached"
  | "attached_elsewhere"
  | "not_available"
  | "unpaid"
  | "deleted";

export type ComputeRefusal =
  /** The account is not enabled for compute. */
  | { readonly kind: "not_enabled" }
  /** The account has no upstream for compute yet. */
  | { readonly kind: "no_seat" }
  | { readonly kind: "invalid"; readonly message: string; readonly param: string | null }
  /** Unknown, another account's, or of another kind: the same answer. */
  | { readonly kind: "not_found"; readonly what: ResourceKind | "template" }
  | {
      readonly kind: "gpu_limit";
      readonly level: "key" | "team" | "account";
      readonly allowed: number;
      readonly used: number;
    }
  | { readonly kind: "state"; readonly what: ResourceKind; readonly why: StateFault }
  | { readonly kind: "duplicate"; readonly what: ResourceKind; readonly field: "name" | "mount_path" | "registry_url" }
  | { readonly kind: "too_many"; readonly what: "drive" | "filesystem" | "image" | "ssh_key"; readonly most: number }
  | {
      readonly kind: "no_credit";
      readonly neededNanoUsd: number;
      readonly availableNanoUsd: number;
      readonly heldNanoUsd: number;
    }
  | { readonly kind: "upstream_refused"; readonly status: 400 | 409; readonly text: string }
  /** A request on a service path. */
  | { readonly kind: "service"; readonly what: MachineKind; readonly why: ServiceFault }
  /** A registration whose answer was lost: it is not repeated here, because its secret is kept nowhere. */
  | { readonly kind: "unanswered" }
  /** The account gave no answer in time. What it was asked to change may be changed, or will be. */
  | { readonly kind: "may_be_done" }
  | { readonly kind: "unavailable"; readonly retryAfterMs: number | null };

/** The name of each kind in messages to tenants. */
const KIND_WORDS: Readonly<Record<ResourceKind | "template", string>> = {
  instance: "GPU instance",
  cluster: "GPU cluster",
  drive: "cloud drive",
  filesystem: "shared filesystem",
  image: "container image",
  ssh_key: "SSH key",
  template: "template",
};

const LIST_OF: Readonly<Record<ResourceKind | "template", string>> = {
  instance: "GET /gpu-instances",
  cluster: "GET /gpu-clusters",
  drive: "GET /cloud-drives",
  filesystem: "GET /shared-filesystems",
  image: "GET /container-images",
  ssh_key: "GET /ssh-keys",
  template: "GET /compute-templates",
};

const STATE: Readonly<Record<StateFault, string>> = {
  not_running: "is not running. Only a running one can be changed or terminated.",
  pending: "is still pending. Poll it, and send this again when it is running.",
  preempted: "is preempted and costs nothing now. Send this again when it runs again.",
  rebuilding: "is being rebuilt. Poll it, and send this again when it is running.",
  ending: "is being terminated. Nothing more can be changed.",
  changing: "has a change under way. Send this again in a few seconds.",
  not_ended: "has not ended. Terminate it first, then hide it.",
  attached: "is currently attached. Terminate what uses it first.",
  attached_elsewhere: "is currently attached to another instance. A cloud drive attaches to one at a time.",
  not_available: "is not available. Poll its list until it is, or name another.",
  deleted: "is deleted, or is being deleted. Its list shows when it is gone.",
  unpaid: "is suspended because a day of it is unpaid. Top up, and attach it when it is available again.",
};

const DUPLICATE: Readonly<Record<"name" | "mount_path" | "registry_url", string>> = {
  name: "this name",
  mount_path: "this mount path",
  registry_url: "this registry_url",
};

/** A compute refusal over HTTP. The contract's body is only `{error}`; the code is for our own records. */
export interface ComputeHttp {
  readonly status: number;
  readonly message: string;
  readonly code: string;
  readonly param: string | null;
  /** Set if a repeat may help. */
  readonly retryAfterMs: number | null;
}
const refusal = (status: number, message: string, code: string, param: string | null = null): ComputeHttp => ({
  status,
  message,
  code,
  param,
  retryAfterMs: null,
});

const TABLE: {
  readonly [K in ComputeRefusal["kind"]]: (refusal: Extract<ComputeRefusal, { kind: K }>) => ComputeHttp;
} = {
  not_enabled: () =>
    refusal(403, "This account has no Compute API access. Ask your operator to enable it.", "insufficient_scope"),
  no_seat: () =>
    refusal(
      403,
      "This account has no Compute API access yet. Ask your operator to finish its setup.",
      "insufficient_scope",
    ),
  invalid: ({ message, param }) => refusal(400, message, "invalid_request_error", param),
  not_found: ({ what }) =>
    refusal(404, `No ${KIND_WORDS[what]} with this id is on this account. ${LIST_OF[what]} lists them.`, "not_found"),
  gpu_limit: ({ level, allowed, used }) =>
    refusal(
      429,
      `The ${level} may have ${allowed} GPUs at once (max_gpus) and has ${used}. Terminate something, or ask for a higher limit.`,
      "rate_limit_exceeded",
    ),
  state: ({ what, why }) => refusal(409, `This ${KIND_WORDS[what]} ${STATE[why]}`, "conflict"),
  duplicate: ({ what, field }) =>
    refusal(
      409,
      `A ${KIND_WORDS[what]} with ${DUPLICATE[field]} already exists. Use another, or delete that one.`,
      "conflict",
      field,
    ),
  too_many: ({ what, most }) =>
    refusal(409, `This account has ${most} ${KIND_WORDS[what]}s, the most it may have. Delete one first.`, "conflict"),
  no_credit: ({ neededNanoUsd, availableNanoUsd, heldNanoUsd }) =>
    refusal(
      402,
      `The balance is insufficient: this needs a hold of ${formatUsd(neededNanoUsd)} USD and ` +
        `${formatUsd(availableNanoUsd)} USD is available (${formatUsd(heldNanoUsd)} USD is held). Top up first.`,
      "insufficient_quota",
    ),
  upstream_refused: ({ status, text }) => refusal(status, text, status === 409 ? "conflict" : "invalid_request_error"),
  service: ({ what, why }) => {
    const [status, code, message] = SERVICE_FAULTS[why];
    return refusal(status, message.replace("{what}", KIND_WORDS[what]), code);
  },
  unanswered: () =>
    refusal(504, "The service did not answer, so nothing is known to be stored. Send it again.", "upstream_timeout"),
  may_be_done: () =>
    refusal(
      504,
      "No answer came in time, and this may have been done all the same. Look at what you have before you send it " +
        "again. With one Idempotency-Key a repeat is safe.",
      "upstream_timeout",
    ),
  unavailable: ({ retryAfterMs }) => ({
    ...refusal(
      503,
      "GPU compute cannot be reached now. Nothing was changed or charged. Try again.",
      "no_healthy_upstream",
    ),
    retryAfterMs: retryAfterMs ?? 5_000,
  }),
};

/** Looks up a compute refusal in the table. */
export function computeToHttp<K extends ComputeRefusal["kind"]>(
  refusal: Extract<ComputeRefusal, { kind: K }>,
): ComputeHttp {
  return TABLE[refusal.kind as K](refusal);
}
