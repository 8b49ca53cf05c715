/** The rows of templates and quotes (contract: Templates). The gateway answers them itself. */
import { QuoteBody } from "../../compute/bodies.ts";
import { compute } from "./compute-endpoint.ts";

export const TEMPLATE_ROWS = [
  compute({
    id: "templates.list",
    route: "GET /compute-templates",
    summary: "Templates that a launch may name: everybody's and the account's",
    body: null,
    template: "list",
    status: 200,
  }),
  compute({
    id: "templates.public",
    route: "GET /compute-templates/public",
    summary: "Everybody's templates",
    body: null,
    template: "public",
    status: 200,
  }),
  compute({
    id: "templates.quote",
    route: "POST /compute-templates/quote",
    summary: "What a launch would hold and cost an hour; nothing is launched",
    body: QuoteBody,
    template: "quote",
    seat: "shared",
    status: 200,
  }),
  compute({
    id: "templates.get",
    route: "GET /compute-templates/{id}",
    summary: "One template",
    body: null,
    template: "get",
    status: 200,
  }),
] as const;
