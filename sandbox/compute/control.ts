/** `/_sandbox/compute`: accounts, regions, forced states, faults, clocks and logs of the compute side. */
import { type Context, Hono } from "hono";
import { z } from "zod";
import { computeOf, type SandboxEnv } from "../env.ts";
import { refusalBody } from "../refusal.ts";
import { wholeLog } from "../whole-log.ts";
import { withBody } from "../with-body.ts";
import type { ComputeCall } from "./call-log.ts";
import { ComputeFaultRequest } from "./faults.ts";
import { AccountRequest, RegionRequest, ResourceRequest, TemplateRequest } from "./forced.ts";

type Control = { Bindings: SandboxEnv };

const ClockRequest = z.strictObject({ advance_ms: z.int().min(0).default(0), account: z.string().optional() });
const JSON_TYPE = { "content-type": "application/json" };

export const computeControl = new Hono<Control>();

computeControl.get("/accounts", async (c) => c.json({ data: await computeOf(c.env).accounts() }));
computeControl.post("/accounts", (c) =>
  withBody(c, AccountRequest, async (account) => c.json(await computeOf(c.env).putAccount(account), 201)),
);

computeControl.get("/regions", async (c) => c.json({ data: JSON.parse(await computeOf(c.env).regions()) }));
computeControl.post("/regions", (c) =>
  withBody(c, RegionRequest, async (region) => c.body(await computeOf(c.env).putRegion(region), 201, JSON_TYPE)),
);

computeControl.post("/templates", (c) =>
  withBody(c, TemplateRequest, async (template) => {
    await computeOf(c.env).putTemplate(template);
    return c.json(template, 201);
  }),
);

computeControl.post("/resources/:id", (c) =>
  withBody(c, ResourceRequest, async (request) => {
    const error = await computeOf(c.env).force(Number(c.req.param("id")), request);
    return error === null ? c.json({ id: Number(c.req.param("id")), ...request }) : refused(c, error);
  }),
);

computeControl.post("/faults", (c) =>
  withBody(c, ComputeFaultRequest, async (fault) =>
    c.body(await computeOf(c.env).addFault(JSON.stringify(fault)), 201, JSON_TYPE),
  ),
);
computeControl.get("/faults", async (c) => c.json({ data: JSON.parse(await computeOf(c.env).listFaults()) }));
computeControl.delete("/faults", async (c) => {
  await computeOf(c.env).clearFaults(c.req.query("account") ?? null);
  return c.json({ data: JSON.parse(await computeOf(c.env).listFaults()) });
});

computeControl.get("/executions", async (c) =>
  c.json({ data: await computeOf(c.env).executions(c.req.query("account") ?? null) }),
);
computeControl.get("/calls", async (c) => {
  const wanted = { account: c.req.query("account") ?? null, kind: c.req.query("kind") ?? null };
  const after = Number(c.req.query("after") ?? 0) || 0;
  const page = async (afterId: number): Promise<ComputeCall[]> =>
    JSON.parse(await computeOf(c.env).calls({ ...wanted, afterId }));
  return c.json({ data: await wholeLog(after, page) });
});

computeControl.get("/clock", async (c) =>
  c.json({ now_ms: await computeOf(c.env).now(c.req.query("account") ?? null) }),
);
computeControl.post("/clock", (c) =>
  withBody(c, ClockRequest, async ({ advance_ms, account = null }) => {
    const moved = await computeOf(c.env).advance(advance_ms, account);
    if (!moved) return refused(c, `There is no account \`${account}\`.`);
    return c.json({ now_ms: await computeOf(c.env).now(account) });
  }),
);

const refused = (c: Context<Control>, message: string): Response =>
  c.json(refusalBody({ status: 400, code: "invalid_request", message, param: null }, "openai"), 400);
