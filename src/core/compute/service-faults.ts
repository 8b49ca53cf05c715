/** Why a request on a service path is not passed on, with its status, code and words. `{what}`: the kind of machine. */
import type { MachineRow } from "./resource.ts";
import { showsRunning } from "./resource.ts";
import type { HeaderFault } from "./service-headers.ts";
import type { PathFault } from "./service-path.ts";

type StateFault = "pending" | "preempted" | "rebuilding" | "ending" | "ended" | "no_port";

export type ServiceFault =
  | StateFault
  | PathFault
  | HeaderFault
  | "method"
  | "body"
  | "worker"
  | "upgrade"
  /** The operator's setting: there is no key for service paths, or it is not known to be kept from pods. */
  | "off"
  | "unusable"
  | "lost"
  | "timeout";

export const SERVICE_FAULTS: Readonly<Record<ServiceFault, readonly [status: number, code: string, text: string]>> = {
  pending: [409, "conflict", "This {what} does not run yet. Poll it, and send this again when it is running."],
  preempted: [409, "conflict", "This {what} is preempted and serves nothing now. Send this again when it runs again."],
  rebuilding: [409, "conflict", "This {what} is being rebuilt. Poll it, and send this again when it is running."],
  ending: [409, "conflict", "This {what} is being terminated and serves nothing more. Launch another."],
  ended: [409, "conflict", "This {what} has ended. Launch another."],
  no_port: [409, "conflict", "This {what} exposes no port. Launch it with `service_port`."],
  off: [409, "conflict", "Service paths are not open on this account yet. Ask your operator to check its upstream."],
  path: [
    400,
    "invalid_request_error",
    "A service path may have no `.` or `..` segment, backslash, space or control character, plain or encoded.",
  ],
  key_in_url: [
    400,
    "invalid_request_error",
    "An API key stands in the URL, which the service would see. Send it as `Authorization: Bearer <key>` and revoke this one.",
  ],
  key_in_header: [
    400,
    "invalid_request_error",
    "An API key stands in a header that the service would see. Send it as `Authorization: Bearer <key>` alone.",
  ],
  headers_too_large: [400, "invalid_request_error", "The headers are larger than 64 kB. Send less."],
  method: [405, "invalid_request_error", "This method is not passed on to services. Use another."],
  body: [400, "invalid_request_error", "A GET or HEAD goes to services without a body. Send it as another method."],
  upgrade: [
    400,
    "invalid_request_error",
    "A WebSocket needs `sec-websocket-version: 13` and a `sec-websocket-key`. Send both.",
  ],
  worker: [403, "invalid_request_error", "A service path hands out no service workers."],
  unusable: [503, "no_healthy_upstream", "Service paths cannot be opened now. Ask your operator."],
  lost: [502, "upstream_error", "The service gave no answer. It may have got the request: check before you repeat it."],
  timeout: [504, "upstream_timeout", "The service did not begin to answer in time. Check before you repeat it."],
};

/** Null: its service can be reached. `upstreamId` is known then. */
export function serviceStateFault(row: MachineRow): StateFault | null {
  const { seen, wants, upstreamId } = row;
  if (seen.state === "ended") return "ended";
  if (wants.end || seen.state === "stopping") return "ending";
  if (seen.state === "preempted") return "preempted";
  if (wants.rebuild) return "rebuilding";
  if (!showsRunning(row) || upstreamId === null) return "pending";
  return wants.setup.servicePort === null ? "no_port" : null;
}
