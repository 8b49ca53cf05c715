/**
 * Custom instances, any bytes both ways (contract: POST /inference-instances/{instance_id}/proxy/{custom_api_path}).
 */
import { onePerCall } from "../../meters/flat.ts";
import { anything } from "../body.ts";
import { endpoint } from "../endpoint.ts";

export const customInstances = endpoint({
  id: "custom",
  method: "POST",
  path: "/inference-instances/{instance_id}/proxy/{custom_api_path*}",
  summary: "The account's own engine, body and answer verbatim",
  scope: "inference",
  flow: { kind: "forwarded" },
  body: anything,
  instance: "instance_id",
  kinds: ["custom"],
  instances: true,
  meter: onePerCall("requests"),
  retry: "costly",
  errors: "openai",
  accept: () => "*/*",
});
