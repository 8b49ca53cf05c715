/**
 * The whole service for one tenant: each of the sandbox's models behind an alias of the tenant's own, at prices of its
 * own, so that no test meets another's price book. And the judge: what a call was charged against what the service's
 * log says.
 */
import { randomInt } from "node:crypto";
import { wav } from "./audio.ts";
import { eventually } from "./eventually.ts";
import { type Operator, unique } from "./operator.ts";
import type { Execution } from "./sandbox.ts";
import type { Tenant } from "./tenant.ts";

/** What tenants pay: tokens per million, the others each. All different, so that no unit passes for another. */
export const PRICES_USD = {
  input_tokens: 2,
  cached_input_tokens: 1,
  output_tokens: 3,
  audio_seconds: 0.004,
  transcribed_seconds: 0.005,
  images: 0.02,
  requests: 0.01,
} as const;
type Unit = keyof typeof PRICES_USD;

/** The row of the price book for these units; cost is half of the price. */
export const pricesOf = (...units: Unit[]) =>
  Object.fromEntries(units.map((unit) => [unit, { cost_usd: PRICES_USD[unit] / 2, price_usd: PRICES_USD[unit] }]));

const TOKENS = ["input_tokens", "cached_input_tokens", "output_tokens"] as const;
const MODELS = {
  chat: { model: "llama-7b", kind: "chat", units: TOKENS },
  image: { model: "image-turbo", kind: "image", units: ["images"] },
  imageEdit: { model: "image-edit", kind: "image", units: ["images"] },
  speech: { model: "tts-multilingual", kind: "speech", units: ["audio_seconds"] },
  voice: { model: "voice-1", kind: "voice", units: ["audio_seconds"] },
  transcription: { model: "stt-large", kind: "transcription", units: ["transcribed_seconds"] },
  embedding: { model: "embed-small", kind: "embedding", units: ["input_tokens"] },
  rerank: { model: "rerank-base", kind: "rerank", units: ["input_tokens"] },
} as const;
export type Names = Readonly<Record<keyof typeof MODELS, string>>;

/** Gives the tenant's names for all models, asked in this order of upstreams. */
export async function serviceFor(
  operator: Operator,
  tenant: Tenant,
  { upstreams = ["sandbox"] as readonly string[] } = {},
): Promise<Names> {
  const names: Record<string, string> = {};
  for (const [use, { model, kind, units }] of Object.entries(MODELS)) {
    const alias = await operator.alias(
      tenant,
      upstreams.map((upstream) => ({ upstream, model })),
    );
    const output = kind === "chat" ? { max_output_tokens: 256 } : {};
    await operator.call("PUT", `/models/${alias}`, { kind, prices: pricesOf(...units), ...output });
    names[use] = alias;
  }
  return names as Names;
}

type InstanceKind = "chat" | "image" | "embedding" | "rerank" | "custom";
const INSTANCE_UNITS: Record<InstanceKind, readonly Unit[]> = {
  chat: TOKENS,
  image: ["images"],
  embedding: ["input_tokens"],
  rerank: ["input_tokens"],
  custom: ["requests"],
};

export interface OwnInstance {
  readonly id: number;
  /** `<name>:<id>` */
  readonly model: string;
}

/** An instance of any kind, registered to a tenant and priced. */
export async function instanceFor(
  operator: Operator,
  tenant: Tenant,
  kind: InstanceKind,
  { path = "/run", free = false } = {},
): Promise<OwnInstance> {
  const id = randomInt(100_000_000, 900_000_000);
  const name = unique("engine");
  const custom = kind === "custom" ? { custom_api_path: path } : {};
  await operator.sandbox.addInstance(id, name, undefined, { kind, ...custom });
  await operator.call("PUT", `/instances/${id}`, {
    account: tenant.account,
    name,
    upstreams: ["sandbox"],
    kind,
    ...custom,
  });
  const model = `${name}:${id}`;
  const output = kind === "chat" ? { max_output_tokens: 256 } : {};
  const price = free
    ? { prices: { requests: { cost_usd: 0.001 } }, free }
    : { prices: pricesOf(...INSTANCE_UNITS[kind]) };
  await operator.call("PUT", `/models/${encodeURIComponent(model)}`, { kind, ...price, ...output });
  return { id, model };
}

/** A request as `Tenant.fetch` takes it. */
export interface Asked {
  readonly path: string;
  readonly init: RequestInit;
}

export const jsonTo = (path: string, body: unknown): Asked => ({
  path,
  init: {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: typeof body === "string" ? body : JSON.stringify(body),
  },
});

export type FormValue = string | Uint8Array<ArrayBuffer>;

export function formTo(path: string, fields: Readonly<Record<string, FormValue | undefined>>): Asked {
  const body = new FormData();
  for (const [name, value] of Object.entries(fields)) {
    if (typeof value === "string") body.set(name, value);
    else if (value !== undefined) body.set(name, new File([value], `${name}.bin`));
  }
  return { path, init: { method: "POST", body } };
}

const CLIP = wav({ ms: 1_000 });
const PICTURE = Uint8Array.from(
  atob("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="),
  (character) => character.charCodeAt(0),
);

type Fields = Readonly<Record<string, unknown>>;
/** A small call of each endpoint that names a model in its body; `fields` over or beside its own. */
export const JSON_CALLS: Readonly<Record<string, { use: keyof Names; path: string; body: Fields }>> = {
  chat: { use: "chat", path: "/v1/chat/completions", body: { messages: [{ role: "user", content: "Hi" }] } },
  responses: { use: "chat", path: "/v1/responses", body: { input: "Hi" } },
  images: { use: "image", path: "/v1/images/generations", body: { prompt: "a cat", size: "512x512" } },
  speech: { use: "speech", path: "/v1/audio/speech", body: { voice: "v", input: "Hello there" } },
  embeddings: { use: "embedding", path: "/v1/embeddings", body: { input: ["one", "two and three"] } },
  rerank: { use: "rerank", path: "/v1/rerank", body: { query: "cats", documents: ["a cat", "a dog"] } },
};
export const FORM_CALLS: Readonly<
  Record<string, { use: keyof Names; path: string; body: Readonly<Record<string, FormValue>> }>
> = {
  edits: { use: "imageEdit", path: "/v1/images/edits", body: { image: PICTURE, prompt: "a hat" } },
  clone: { use: "voice", path: "/v1/audio/voice-clone", body: { reference_audio: CLIP, input: "Hello there" } },
  localEdit: {
    use: "voice",
    path: "/v1/audio/text-local-edit",
    body: { source_audio: CLIP, original_text: "one", edited_text: "one two" },
  },
  transcription: { use: "transcription", path: "/v1/audio/transcriptions", body: { file: CLIP } },
};
export const ENDPOINT_NAMES = [...Object.keys(JSON_CALLS), ...Object.keys(FORM_CALLS)];

/** The small call of an endpoint under this model. */
export function callOf(endpoint: string, model: string, fields: Fields = {}): Asked {
  const json = JSON_CALLS[endpoint];
  if (json) return jsonTo(json.path, { model, ...json.body, ...fields });
  const form = FORM_CALLS[endpoint];
  if (!form) throw new Error(`no endpoint ${endpoint}`);
  return formTo(form.path, { model, ...form.body, ...(fields as Record<string, FormValue>) });
}
export function useOf(endpoint: string): keyof Names {
  const use = (JSON_CALLS[endpoint] ?? FORM_CALLS[endpoint])?.use;
  if (!use) throw new Error(`no endpoint ${endpoint}`);
  return use;
}

export const ask = (tenant: Tenant, { path, init }: Asked): Promise<Response> => tenant.fetch(path, init);

/**
 * For answers that come before the body was read: a client that is still sending may find the connection closed and
 * asks again.
 */
export const askUntilTold = (tenant: Tenant, asked: Asked): Promise<Response> =>
  eventually("an answer", () => ask(tenant, asked), { withinMs: 30_000 });

export type Used = Omit<Execution, "usage"> & { readonly usage: Readonly<Record<string, number>> | null };

/** What the price book says of a usage, in nano-USD. */
export function owedNanoUsd(usage: Readonly<Record<string, number>>): number {
  const cached = usage.cached_input_tokens ?? 0;
  const quantities = { ...usage, input_tokens: (usage.input_tokens ?? 0) - cached };
  const nano = Object.entries(quantities).map(([unit, quantity]) => {
    const perPrice = unit.endsWith("_tokens") ? 1_000_000 : 1;
    return ((quantity ?? 0) * PRICES_USD[unit as Unit] * 1e9) / perPrice;
  });
  return Math.round(nano.reduce((sum, one) => sum + one, 0));
}

export interface Bill {
  readonly chargedNanoUsd: number;
  /** What the service executed under this call's id. */
  readonly executions: readonly Used[];
}

/** What became of a call, once it is in the ledger. */
export async function billOf(tenant: Tenant, callId: string | null): Promise<Bill> {
  const charge = await eventually(`a charge for ${callId}`, async () =>
    (await tenant.charges()).find(({ call_id }) => call_id === callId),
  );
  return { chargedNanoUsd: Math.round(0 - charge.amount_usd * 1e9), executions: await executionsOf(tenant, callId) };
}

export async function executionsOf(tenant: Tenant, callId: string | null): Promise<Used[]> {
  const calls = (await tenant.operator.sandbox.callsOf(callId)) as Used[];
  return calls.filter(({ executed }) => executed);
}

export const callIdOf = (response: Pick<Response, "headers">): string | null => response.headers.get("x-request-id");
