/** Templates and quotes for tenants, and the fields that a launch leaves to its template. */
import type * as z from "zod/mini";
import type { QuoteBody } from "../../core/compute/bodies.ts";
import type { ComputeAnswer } from "../../core/compute/calls.ts";
import { refuse } from "../../core/compute/facts.ts";
import { readRegions } from "../../core/compute/market.ts";
import { quoteOf } from "../../core/compute/quotes.ts";
import { type ComputeEndpoint, idOf, type TemplateCall } from "../../core/endpoints/compute/compute-endpoint.ts";
import {
  type LaunchTemplate,
  templateDocument,
  templateNamed,
  templatesFor,
  withDefaults,
} from "../../core/launch-templates.ts";
import type { Outcome } from "../../core/outcome.ts";
import type { RoutingSnapshot } from "../../core/routing/routes.ts";
import type { Caller, Ports } from "../ports.ts";

const NOT_FOUND = refuse({ kind: "not_found", what: "template" });
const UNAVAILABLE = refuse({ kind: "unavailable", retryAfterMs: null });

/**
 * The body with what its template has for the fields that it leaves out. Without the template nobody can say what is
 * wrong with the rest of the body, so an unknown one is said first.
 */
export async function filled(
  body: unknown,
  { fills }: Pick<ComputeEndpoint, "fills">,
  caller: Caller,
  { directory, log }: Pick<Ports, "directory" | "log">,
): Promise<Outcome<{ value: unknown }>> {
  const id = fills ? templateNamed(body) : undefined;
  if (id === undefined) return { ok: true, value: body };
  const of = (routing: RoutingSnapshot) => seenBy(caller, routing).find((one) => one.id === id);
  try {
    // It may have been made a moment ago.
    const template = of(await directory.routing()) ?? of(await directory.refresh(caller.account));
    return template ? { ok: true, value: withDefaults(body, template) } : NOT_FOUND;
  } catch (error) {
    log({ event: "routing_failed", error: String(error) });
    return UNAVAILABLE;
  }
}

const seenBy = ({ account }: Caller, { templates }: RoutingSnapshot): readonly LaunchTemplate[] =>
  templatesFor(templates ?? [], account);

interface Asked {
  readonly call: TemplateCall;
  /** As the path has it. */
  readonly id: string | undefined;
  readonly body: unknown;
  readonly caller: Caller;
  readonly routing: RoutingSnapshot;
  readonly answer: Extract<ComputeAnswer, { ok: true }>;
}

/** What a call of this kind shows, once the account object let it pass. */
export async function templateAnswer(asked: Asked, ports: Ports): Promise<Outcome<{ document: unknown }>> {
  if (asked.call === "quote") return quote(asked, ports);
  const templates = seenBy(asked.caller, asked.routing);
  if (asked.call === "get") {
    const id = idOf(asked.id ?? "");
    const found = templates.find((one) => one.id === id);
    return found ? { ok: true, document: templateDocument(found) } : NOT_FOUND;
  }
  const shown = asked.call === "public" ? templates.filter(({ account }) => account === null) : templates;
  return { ok: true, document: shown.map(templateDocument) };
}

async function quote({ body, answer }: Asked, ports: Ports): Promise<Outcome<{ document: unknown }>> {
  const { upstream } = answer;
  const market = await ports
    .broker(upstream)
    .market(upstream, "gpus")
    .catch((error: unknown) => {
      ports.log({ event: "broker_lost", upstream, verb: "market", error: String(error) });
      return undefined;
    });
  const regions = market?.kind === "answered" && market.status === 200 ? readRegions(market.body) : undefined;
  if (!regions) return UNAVAILABLE;
  // The row's schema made the body.
  const { gpuPrices, storagePrices, shared } = answer;
  const offers = { regions, gpuPrices: new Map(gpuPrices), storagePrices: new Map(storagePrices), shared };
  const quoted = quoteOf(offers, body as z.output<typeof QuoteBody>);
  return "ok" in quoted ? quoted : { ok: true, document: quoted };
}
