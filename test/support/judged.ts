/** What a row of the endpoint table says of its fixture with other fields. */
import type { Endpoint } from "../../src/core/endpoints/endpoint.ts";
import { parseForm } from "../../src/core/formats/multipart.ts";
import { BOUNDARY, FIXTURES, formBytes } from "./fixtures.ts";

const fixtureOf = (endpoint: Endpoint) => {
  const fixture = FIXTURES[endpoint.id];
  if (!fixture) throw new Error(`no fixture for ${endpoint.id}`);
  return fixture;
};

/** What is told of the fixture's body with these fields: the field that is wrong, or that it was taken. */
export function judged(endpoint: Endpoint, fields: object): string | null {
  const { body, ...raw } = fixtureOf(endpoint);
  if (body.kind !== "json") throw new Error("no JSON");
  return outcome(endpoint.parse({ ...raw, body: { kind: "json", value: { ...(body.value as object), ...fields } } }));
}

/** The same of a form's field; `no form` where the form itself is refused, as for names that readers differ on. */
export function judgedForm(endpoint: Endpoint, name: string, value = "x"): string | null {
  const { body, ...raw } = fixtureOf(endpoint);
  const more = parseForm(formBytes([[name, value]]), BOUNDARY);
  if (body.kind !== "form") throw new Error("no form");
  if (!more.ok) return "no form";
  return outcome(endpoint.parse({ ...raw, body: { ...body, parts: [...body.parts, ...more.parts] } }));
}

function outcome(parsed: ReturnType<Endpoint["parse"]>): string | null {
  if (parsed.ok) return "taken";
  return parsed.refusal.kind === "invalid_request" ? parsed.refusal.param : parsed.refusal.kind;
}
