/**
 * The rows of service paths: any method, any path below. What they pass: core/compute/service-headers.ts.
 *
 * A new kind of service path is not one row, unlike in the other tables. What makes one safe is not in a row: the path
 * is matched in the URL as it was sent, before any router decodes it (core/compute/service-path.ts), and its id is one
 * of a kind of machine. So there is a row for each `MachineKind`, which the type demands, and no made-up one in
 * test/gateway/made-up-endpoint.test.ts.
 */
import type { CallAccess } from "../../account/call-access.ts";
import type { MachineKind } from "../../compute/resource.ts";

export interface ServiceEndpoint {
  readonly id: string;
  readonly method: "ANY";
  readonly path: string;
  readonly summary: string;
  readonly access: CallAccess;
}

const access: CallAccess = { scope: "compute", role: "member" };

export const SERVICE_ROWS: Readonly<Record<MachineKind, ServiceEndpoint>> = {
  instance: {
    id: "instances.service",
    method: "ANY",
    path: "/gpu-instances/{id}/service/{path}",
    summary: "The service that an instance exposes at its `service_port`",
    access,
  },
  cluster: {
    id: "clusters.service",
    method: "ANY",
    path: "/gpu-clusters/{id}/service/{path}",
    summary: "The service of a cluster, spread over its replicas",
    access,
  },
};
