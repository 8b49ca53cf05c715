/** The rows of what is offered: regions and storage as upstream has them now (contract: Availability). */
import { compute } from "./compute-endpoint.ts";

export const MARKET_ROWS = [
  compute({
    id: "market.gpus",
    route: "GET /gpu-instances/availability",
    summary: "Regions with what a launch can get now",
    body: null,
    market: "gpus",
    status: 200,
  }),
  compute({
    id: "market.storage",
    route: "GET /storage/availability",
    summary: "Free storage by region",
    body: null,
    market: "storage",
    status: 200,
  }),
] as const;
