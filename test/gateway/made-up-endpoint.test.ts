import { describe, expect, it } from "vitest";
import * as z from "zod/mini";
import type { FreeCall } from "../../src/core/account/free-calls.ts";
import type { ComputeRequest } from "../../src/core/compute/calls.ts";
import type { Facts } from "../../src/core/compute/facts.ts";
import { json, nothing } from "../../src/core/endpoints/body.ts";
import { compute } from "../../src/core/endpoints/compute/compute-endpoint.ts";
import { type Endpoint, endpoint } from "../../src/core/endpoints/endpoint.ts";
import { asId, type CallId } from "../../src/core/ids.ts";
import type { Owned } from "../../src/core/owned.ts";
import type { ModelRow } from "../../src/core/pricing/prices.ts";
import { aliasKey, type RoutingSnapshot } from "../../src/core/routing/routes.ts";
import { serveCompute } from "../../src/gateway/flows/compute.ts";
import { serve } from "../../src/gateway/serve.ts";
import { launchedRow } from "../support/compute/rows.ts";
import { json as answerJson, type FakeOptions, fakeWorld, grantTo, makeKey, ROUTING } from "../support/fake-ports.ts";

/*
 * Endpoints that no contract has: one row for each flow, and nothing else. Service paths have none: see
 * core/endpoints/compute/service-rows.ts.
 */

const Poem = z.looseObject({ model: z.string(), lines: z.int().check(z.minimum(1)) });

const poems = endpoint({
  id: "poems",
  method: "POST",
  path: "/v1/poems",
  summary: "A poem of so many lines",
  scope: "inference",
  flow: { kind: "forwarded" },
  body: json(Poem),
  model: "model",
  kinds: ["chat"],
  instances: true,
  meter: {
    bound: ({ lines }) => ({ fixed: { requests: lines } }),
    reader: ({ lines }) => ({
      kind: "json",
      read: (answer) => typeof answer === "object" && answer !== null && "poem" in answer,
      reading: () => ({ source: "exact", usage: { requests: lines } }),
    }),
  },
  retry: "costly",
  errors: "openai",
});

const filmQuote = endpoint({
  id: "films.quote",
  method: "POST",
  path: "/v1/films/quote",
  summary: "What a film may come to",
  scope: "inference",
  flow: { kind: "quote" },
  body: json(Poem),
  model: "model",
  kinds: ["video"],
  jobUnit: () => "video_tokens_720p",
  retry: "safe",
  errors: "compute",
});

const films = endpoint({
  id: "films",
  method: "POST",
  path: "/v1/films",
  summary: "Makes a film, later",
  scope: "compute",
  role: "admin",
  limits: [{ name: "submissions", per: "account", count: 3, windowMs: 5_000 }],
  flow: { kind: "job", quotedBy: filmQuote },
  body: json(Poem),
  model: "model",
  kinds: ["video"],
  meter: {
    bound: (_, { estimate }) => ({ fixed: { video_tokens_720p: estimate?.maxTokens ?? 0 } }),
    reader: () => ({
      kind: "json",
      read: () => true,
      created: () => "film_1",
      reading: () => ({ source: "own_count", usage: {} }),
    }),
  },
  jobUnit: () => "video_tokens_720p",
  creates: "video_job",
  readBack: { kind: "known", answer: ({ id }) => JSON.stringify({ film: id }) },
  readCode: ({ code, status, retryAfterMs }, message) =>
    code === "no_film"
      ? {
          refusal: {
            kind: "video_refused",
            status: 400,
            code: `${code}_${status}`,
            message,
            retryable: false,
            retryAfterMs,
          },
          passedOver: false,
        }
      : null,
  retry: "creates",
  errors: "compute",
});

const filmPrices = endpoint({
  id: "films.prices",
  method: "GET",
  path: "/v1/films/{model}/prices",
  summary: "What films cost",
  scope: "inference",
  flow: { kind: "prices" },
  body: nothing,
  modelParam: "model",
  kinds: ["video"],
  retry: "safe",
  errors: "compute",
});

const filmState = endpoint({
  id: "films.state",
  method: "GET",
  path: "/v1/films/{id}",
  summary: "How far a film is",
  scope: "inference",
  flow: { kind: "poll" },
  body: nothing,
  kinds: [],
  owned: [{ kind: "video_job", at: "path.id" }],
  retry: "safe",
  errors: "compute",
});

const filmCut = endpoint({
  id: "films.cut",
  method: "POST",
  path: "/v1/films/{id}/cut",
  summary: "Cuts a film short",
  scope: "compute",
  role: "owner",
  flow: { kind: "free" },
  body: nothing,
  kinds: [],
  owned: [{ kind: "video_job", at: "path.id" }],
  retry: "safe",
  errors: "compute",
});

const kinds = endpoint({
  id: "kinds",
  method: "GET",
  path: "/v1/kinds/{kind}",
  summary: "Whether the key has a model of a kind",
  scope: "inference",
  flow: {
    kind: "local",
    answer: (call, { models }) =>
      models.length > 0
        ? { ok: true, body: { kinds: models.map(({ kind }) => kind), path: call.path } }
        : { ok: false, refusal: { kind: "model_not_found", model: call.path } },
  },
  body: nothing,
  kinds: [],
  retry: "safe",
  errors: "openai",
});

const rename = compute({
  id: "instances.rename",
  route: "PATCH /gpu-instances/{id}/name",
  summary: "Gives an instance another name",
  body: z.object({ name: z.string().check(z.maxLength(20)) }),
  on: "instance",
  status: 200,
  rule: ({ rows }, id, { name }) => {
    const row = rows.find((one) => one.kind === "instance" && one.id === id);
    if (row?.kind !== "instance") return { ok: false, refusal: { kind: "compute", refusal: { kind: "no_seat" } } };
    return { ok: true, row: { ...row, launched: { ...row.launched, name } }, acts: [], call: null };
  },
});

const FILM_ROW: ModelRow = {
  model: "film",
  kind: "video",
  fromMs: 0,
  costNanoUsd: { video_tokens_720p: 7_000_000_000 },
  priceNanoUsd: {},
  free: false,
};
const FILM_ROUTING: RoutingSnapshot = {
  ...ROUTING,
  aliases: {
    [aliasKey(null, "film")]: {
      alias: "film",
      account: null,
      targets: [{ upstream: "u", model: "first", priority: 0, weight: 1 }],
      retryOn: [],
    },
  },
  models: { film: [FILM_ROW] },
};
const QUOTE = { estimated_tokens_min: 10, estimated_tokens_max: 30 };
const FILM: Owned = {
  kind: "video_job",
  id: "film_1",
  upstream: "u",
  targetModel: "first",
  model: "film",
  totalTokens: 0,
};

async function ask(row: Endpoint, options: FakeOptions, body: unknown = undefined, params = {}) {
  const world = fakeWorld(options);
  const request = new Request(`http://gateway.test${row.path}`, {
    method: row.method,
    headers: { authorization: `Bearer ${makeKey()}`, "content-type": "application/json" },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const response = await serve(request, row, params, world.ports);
  const answer = (await response.json()) as Record<string, unknown>;
  await world.idle();
  return { ...world, status: response.status, answer };
}
const unasked = () => {
  throw new Error("no upstream call was expected");
};

const NOTHING_ELSE = { mounted: [], gpuPrices: [], storagePrices: [], shared: false } as const;

/** A new flow is missed here by the compiler. */
const BY_FLOW: Readonly<Record<Endpoint["flow"]["kind"], Endpoint>> = {
  forwarded: poems,
  job: films,
  quote: filmQuote,
  prices: filmPrices,
  poll: filmState,
  free: filmCut,
  local: kinds,
};

describe("a made-up endpoint takes one row", () => {
  it("there is one for each flow", () => {
    const flows = Object.values(BY_FLOW).map(({ flow }) => flow.kind);
    expect(flows).toEqual(Object.keys(BY_FLOW));
  });

  it("forwarded: it is admitted, forwarded, relayed and settled by the pipeline as it is", async () => {
    const options = { script: () => answerJson({ poem: "..." }), routing: ROUTING };
    const asked = await ask(poems, options, { model: "chat", lines: 3, x: 1 });
    expect(asked.answer).toEqual({ poem: "..." });
    expect(asked.admitted[0]?.bound).toEqual({ fixed: { requests: 3 } });
    expect(asked.sent[0]?.request.path).toBe("/v1/poems");
    expect(asked.sent[0]?.body).toEqual({ model: "first:1", lines: 3, x: 1 });
    expect(asked.settled[0]?.reading).toEqual({ source: "exact", usage: { requests: 3 } });
  });

  it("forwarded: it refuses what its schema refuses, in its error shape", async () => {
    const refused = await ask(poems, { script: unasked }, { model: "chat", lines: 0 });
    expect([refused.status, refused.answer]).toMatchObject([400, { error: { param: "lines" } }]);
    expect(refused.admitted).toEqual([]);
  });

  it("job: it is quoted by the row that it names, held for the quote, submitted and acknowledged", async () => {
    const script: FakeOptions["script"] = ({ request }) =>
      request.path === "/v1/films/quote" ? answerJson(QUOTE) : answerJson({ id: "film_1", status: "processing" }, 202);
    const asked = await ask(films, { script, routing: FILM_ROUTING }, { model: "film", lines: 3 });
    expect([asked.status, asked.answer]).toMatchObject([202, { id: "film_1" }]);
    expect(asked.sent.map(({ request }) => request.path)).toEqual(["/v1/films/quote", "/v1/films"]);
    expect(asked.admitted[0]?.bound).toEqual({ fixed: { video_tokens_720p: 30 } });
    expect(asked.begun).toMatchObject([{ id: "film_1", unit: "video_tokens_720p" }]);
    expect([asked.settled, asked.released]).toEqual([[], []]);
  });

  it("job: what the row asks of the key, and its limits, are the account object's to hold", async () => {
    const script: FakeOptions["script"] = ({ request }) =>
      request.path === "/v1/films/quote" ? answerJson(QUOTE) : answerJson({ id: "film_1", status: "processing" }, 202);
    const asked = await ask(films, { script, routing: FILM_ROUTING }, { model: "film", lines: 3 });
    const limits = [{ name: "submissions", per: "account", count: 3, windowMs: 5_000 }];
    const rule = [{ access: { scope: "compute", role: "admin" }, limits }];
    expect([asked.asked, asked.admitted]).toMatchObject([rule, rule]);
  });

  it("job: a code of its upstream means what the row says, under any status", async () => {
    const script: FakeOptions["script"] = ({ request }) =>
      request.path === "/v1/films/quote" ? answerJson(QUOTE) : answerJson({ error: "none", code: "no_film" }, 500);
    const asked = await ask(films, { script, routing: FILM_ROUTING }, { model: "film", lines: 3 });
    expect([asked.status, asked.answer]).toEqual([400, { error: "none" }]);
    expect(asked.released).toMatchObject([{ reason: "video_refused", lostTries: 0 }]);
  });

  it("job: a repeat is answered as the row makes its answer again", async () => {
    const earlier = { callId: asId<CallId>("call-0"), state: "completed", status: 202, created: FILM } as const;
    const refusal = { kind: "idempotency", why: "not_kept" } as const;
    const options = {
      script: unasked,
      routing: FILM_ROUTING,
      inquire: () => ({ ok: false, refusal, earlier }) as const,
    };
    const asked = await ask(films, options, { model: "film", lines: 3 });
    expect([asked.status, asked.answer]).toEqual([202, { film: "film_1" }]);
  });

  it("quote: it is asked upstream and said in the tenant's prices, without a hold", async () => {
    const options = { script: () => answerJson(QUOTE), routing: FILM_ROUTING };
    const asked = await ask(filmQuote, options, { model: "film", lines: 3 });
    expect([asked.status, asked.answer]).toMatchObject([200, { estimated_tokens_max: 30 }]);
    expect(asked.sent[0]?.request.path).toBe("/v1/films/quote");
    expect([asked.admitted, asked.asked]).toMatchObject([[], [{ purpose: "quote", endpoint: "films.quote" }]]);
  });

  it("prices: it is answered from the tenant's prices", async () => {
    const asked = await ask(filmPrices, { script: unasked, routing: FILM_ROUTING }, undefined, { model: "film" });
    expect([asked.status, asked.answer]).toMatchObject([200, { model: "film", rates: [{ resolution: "720p" }] }]);
    expect(asked.asked).toMatchObject([{ purpose: "prices", endpoint: "films.prices" }]);
  });

  it("poll: the account object answers for the job", async () => {
    const job = { ok: true, document: { id: "film_1", status: "processing" }, region: "r1" } as const;
    const asked = await ask(filmState, { script: unasked, job }, undefined, { id: "film_1" });
    expect([asked.status, asked.answer]).toEqual([200, job.document]);
  });

  it.each([200, 201, 202])(
    "free: it goes to where its id lives, and a %i of the upstream's passes as it is",
    async (status) => {
      const options = { script: () => answerJson({ cut: true }, status), authorize: async () => grantTo([FILM]) };
      const asked = await ask(filmCut, options, undefined, { id: "film_1" });
      expect([asked.status, asked.answer]).toEqual([status, { cut: true }]);
      expect(asked.sent).toMatchObject([
        { target: { upstream: "u", model: "first" }, request: { path: "/v1/films/film_1/cut" } },
      ]);
      expect(asked.admitted).toEqual([]);
    },
  );

  it("free: what the row asks of the key is asked of the account object", async () => {
    let asked: FreeCall | undefined;
    const authorize: FakeOptions["authorize"] = async (free) => {
      asked = free;
      return grantTo([FILM]);
    };
    await ask(filmCut, { script: () => answerJson({ cut: true }), authorize }, undefined, { id: "film_1" });
    const owned = [{ kind: "video_job", id: "film_1" }];
    expect(asked).toEqual({ owned, access: { scope: "compute", role: "owner" }, reach: "upstream" });
  });

  it("free: an id that is not the account's reaches no upstream", async () => {
    const refusal = { kind: "id_not_found", what: "video job" } as const;
    const asked = await ask(filmCut, { script: unasked, authorize: async () => ({ ok: false, refusal }) }, undefined, {
      id: "x",
    });
    expect([asked.status, asked.answer]).toEqual([404, { error: expect.any(String) }]);
    expect(asked.logged).toMatchObject([{ event: "call_refused", endpoint: "films.cut", reason: "id_not_found" }]);
  });

  it("local: it is answered here, from what the key may call", async () => {
    const asked = await ask(kinds, { script: unasked, routing: FILM_ROUTING }, undefined, { kind: "x" });
    expect([asked.status, asked.answer]).toEqual([200, { kinds: ["video"], path: "/v1/kinds/x" }]);
    const authorize = async () => ({ ...grantTo([]), models: ["other"] });
    const barred = await ask(kinds, { script: unasked, routing: FILM_ROUTING, authorize }, undefined, { kind: "x" });
    expect([barred.status, barred.answer]).toMatchObject([404, { error: { code: "model_not_found" } }]);
  });

  it("compute: its body is checked, its rule decides, and the row that it made is shown", async () => {
    const asked: ComputeRequest[] = [];
    const { ports, logged } = fakeWorld({
      script: unasked,
      // As the account object: the rule gets the account's rows, the id of the path and the checked body.
      compute: async (request) => {
        asked.push(request);
        if (!request.body.ok) return request.body;
        const facts = { rows: [launchedRow(null)] } as unknown as Facts;
        const decision = rename.decide?.(facts, request.id ?? 0, request.body.body);
        if (!decision?.ok) return decision ?? { ok: false, refusal: { kind: "internal" } };
        return { ok: true, upstream: "u", rows: [decision.row], ...NOTHING_ELSE };
      },
    });
    const send = async (name: string) => {
      const headers = { authorization: `Bearer ${makeKey()}`, "content-type": "application/json" };
      const init = { method: "PATCH", headers, body: JSON.stringify({ name, unknown: 1 }) };
      const request = new Request("http://gateway.test/gpu-instances/1000/name", init);
      const response = await serveCompute(request, rename, { id: "1000" }, ports);
      return { status: response.status, answer: await response.json() };
    };
    expect(await send("a".repeat(21))).toEqual({
      status: 400,
      answer: { error: "`name` must be a string of at most 20 characters; it was a string of 21 characters." },
    });
    expect(await send("other")).toMatchObject({ status: 200, answer: { id: 1000, name: "other" } });
    expect(asked.map(({ endpoint, id }) => [endpoint, id])).toEqual([
      ["instances.rename", 1000],
      ["instances.rename", 1000],
    ]);
    expect(asked[1]?.body).toEqual({ ok: true, body: { name: "other" } });
    expect(logged.map(({ endpoint }) => endpoint)).toEqual(["instances.rename", "instances.rename"]);
  });

  it.each([
    ["that gives no answer may have done it: 504 says so", {}, 504, /may have been done/],
    ["that is overloaded has not: 503", { overloaded: true }, 503, /could not be checked/],
  ])("compute: an account %s", async (_, flags, status, text) => {
    const compute = () => Promise.reject(Object.assign(new Error("lost"), flags));
    const { ports } = fakeWorld({ script: unasked, compute });
    const headers = { authorization: `Bearer ${makeKey()}`, "content-type": "application/json" };
    const init = { method: "PATCH", headers, body: JSON.stringify({ name: "other" }) };
    const request = new Request("http://gateway.test/gpu-instances/1000/name", init);
    const response = await serveCompute(request, rename, { id: "1000" }, ports);
    expect(response.status).toBe(status);
    expect(await response.json()).toEqual({ error: expect.stringMatching(text) });
  });
});
