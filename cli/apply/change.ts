/** A change that a file asks for: what is shown of it, and what is sent. */
import type { Fields, WantedUpstream } from "./desired.ts";

/** What is sent for a change. */
export type Step =
  | {
      readonly do: "make_upstream" | "change_upstream";
      readonly upstream: string;
      readonly body: Fields;
      readonly keys: KeysSent;
    }
  | { readonly do: "make_model" | "change_model"; readonly model: string; readonly body: Fields }
  | { readonly do: "set_prices"; readonly model: string; readonly body: Fields }
  | {
      readonly do: "make_alias" | "change_alias";
      readonly alias: string;
      readonly account: string | null;
      readonly body: Fields;
    }
  | { readonly do: "make_account" | "change_account"; readonly account: string; readonly body: Fields }
  | { readonly do: "make_team"; readonly account: string; readonly name: string; readonly body: Fields }
  | { readonly do: "change_team"; readonly account: string; readonly team: string; readonly body: Fields }
  /** `body.team` is a name. */
  | { readonly do: "make_key"; readonly account: string; readonly name: string; readonly body: Fields }
  | { readonly do: "change_key"; readonly account: string; readonly key: string; readonly body: Fields }
  | { readonly do: "drop_alias"; readonly alias: string; readonly account: string | null }
  | { readonly do: "drop_prices"; readonly model: string; readonly from: string }
  | { readonly do: "drop_upstream"; readonly upstream: string };

/** Which credentials go with it. */
export type KeysSent = Pick<WantedUpstream, "apiKey" | "serviceApiKey">;

export interface FieldChange {
  readonly field: string;
  /** Undefined: there is nothing yet. */
  readonly from?: unknown;
  readonly to: unknown;
}
export interface Change {
  readonly op: "make" | "change" | "drop";
  readonly kind: "upstream" | "model" | "prices" | "alias" | "account" | "team" | "key";
  readonly id: string;
  readonly fields: readonly FieldChange[];
  readonly step: Step;
}

/** Deep, without regard to the order of names. */
export const alike = (one: unknown, other: unknown): boolean =>
  JSON.stringify(ordered(one)) === JSON.stringify(ordered(other));

function ordered(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(ordered);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).filter(([, field]) => field !== undefined);
  return entries.sort(([one], [other]) => (one < other ? -1 : 1)).map(([name, field]) => [name, ordered(field)]);
}
