/** Templates, which give a launch defaults for its fields, and quotes. The contract leaves their shapes open. */
import { z } from "zod";
import { check } from "../check.ts";
import { priceOf, rateOf, usd } from "./money.ts";
import type { Template } from "./records.ts";
import { answer, type Call, type Checked, fine, no, type Route, refuse, route } from "./route.ts";

const document = ({ id, account, name, description, defaults }: Template) => ({
  id,
  name,
  description,
  public: account === null,
  ...defaults,
});

const visible = ({ world, account }: Call) =>
  world.templates().filter((one) => one.account === null || one.account === account.account);

/** The body of a launch with its template's defaults, checked against the schema of the launch. */
export function readLaunch<S extends z.ZodType>(
  call: Call,
  raw: Readonly<Record<string, unknown>>,
  schema: S,
): Checked<z.output<S>> {
  const id = raw.template_id;
  if (id !== undefined && !Number.isSafeInteger(id)) return no(400, "`template_id`: must be an integer");
  const template = visible(call).find((one) => one.id === id);
  const checked = check({ ...template?.defaults, ...raw }, schema);
  if (!checked.ok) return no(400, checked.refusal.message);
  return id === undefined || template ? fine(checked.value) : no(404, `There is no template ${id}.`);
}

const Quote = z.object({
  region_id: z.string(),
  gpu_count: z.int().min(1).max(8),
  replicas: z.int().min(1).max(8).default(1),
  interruptible: z.boolean().default(false),
  estimated_duration_hours: z.int().min(0).max(72).default(0),
  template_id: z.int().optional(),
});

export const TEMPLATES: readonly Route[] = [
  route("GET /compute-templates", { serve: (call) => answer(200, visible(call).map(document)) }),
  route("GET /compute-templates/public", {
    serve: (call) =>
      answer(
        200,
        visible(call)
          .filter(({ account }) => account === null)
          .map(document),
      ),
  }),
  route("GET /compute-templates/:id", {
    serve: (call, _, __, id) => {
      const found = visible(call).find((one) => one.id === id);
      return found ? answer(200, document(found)) : refuse(404, `There is no template ${id}.`);
    },
  }),
  route("POST /compute-templates/quote", {
    body: Quote,
    serve: (call, body) => {
      const { world } = call;
      if (body.template_id !== undefined && !visible(call).some(({ id }) => id === body.template_id)) {
        return refuse(404, `There is no template ${body.template_id}.`);
      }
      const region = world.region(body.region_id);
      if (!region) return refuse(400, `There is no region \`${body.region_id}\`. See /gpu-instances/availability.`);
      const rate = rateOf(region, body.interruptible, body.gpu_count * body.replicas);
      if (rate === null) return refuse(400, `\`${region.gpuType}\` is not sold interruptible.`);
      const { hourMs } = world.lengths;
      const hours = body.estimated_duration_hours;
      return answer(200, {
        gpu_type: region.gpuType,
        hourly_rate_usd: usd(rate),
        held_usd: usd(priceOf(rate, (hours || 1) * hourMs, hourMs)),
        total_usd: hours ? usd(priceOf(rate, hours * hourMs, hourMs)) : null,
      });
    },
  }),
];
