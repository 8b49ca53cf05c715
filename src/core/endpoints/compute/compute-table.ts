/** The rows of the compute API. Names in paths come before ids: `availability` is no instance. */
import type { ComputeEndpoint } from "./compute-endpoint.ts";
import { IMAGE_ROWS } from "./image-rows.ts";
import { KEY_ROWS } from "./key-rows.ts";
import { MACHINE_ROWS } from "./machine-rows.ts";
import { MARKET_ROWS } from "./market-rows.ts";
import { STORAGE_ROWS } from "./storage-rows.ts";
import { TEMPLATE_ROWS } from "./template-rows.ts";

export const COMPUTE_ROWS: readonly ComputeEndpoint[] = [
  ...MARKET_ROWS,
  ...MACHINE_ROWS,
  ...STORAGE_ROWS,
  ...IMAGE_ROWS,
  ...KEY_ROWS,
  ...TEMPLATE_ROWS,
];
