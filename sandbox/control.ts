/** `/_sandbox`, which is not part of the contract: faults, the log of calls, the clock, instances and regions. */
import { type Context, Hono } from "hono";
import { z } from "zod";
import { MODEL_KINDS } from "./catalog.ts";
import { computeControl } from "./compute/control.ts";
import { computeOf, type SandboxEnv, serviceOf } from "./env.ts";
import { FaultRequest } from "./faults.ts";
import type { Call } from "./service/calls.ts";
import { wholeLog } from "./whole-log.ts";
import { withBody } from "./with-body.ts";

type Control = { Bindings: SandboxEnv };

const Region = z.string().regex(/^[a-z0-9-]{1,40}$/);
const Pod = z.strictObject({ region: Region, healthy: z.boolean().default(true) });
const InstanceRequest = z.strictObject({
  instance_id: z.int().min(1),
  name: z.string().min(1),
  account: z.string().min(1),
  kind: z.enum(MODEL_KINDS).default("chat"),
  custom_api_path: z.string().min(1).nullable().default(null),
  pods: z.array(Pod).min(1),
});
const RegionRequest = z.strictObject({ region: Region, healthy: z.boolean() });
const ClockRequest = z.strictObject({ advance_ms: z.int().min(0).default(0) });

export const control = new Hono<Control>();

control.route("/compute", computeControl);

control.post("/faults", (c) =>
  withBody(c, FaultRequest, async (fault) =>
    c.body(await serviceOf(c.env).addFault(JSON.stringify(fault)), 201, { "content-type": "application/json" }),
  ),
);
control.get("/faults", async (c) => c.json({ data: JSON.parse(await serviceOf(c.env).listFaults()) }));
control.delete("/faults", async (c) => {
  await serviceOf(c.env).clearFaults();
  return c.json({ data: [] });
});

control.get("/executions", async (c) => c.json({ data: await logged(c, true) }));
control.get("/calls", async (c) => c.json({ data: await logged(c, false) }));

control.get("/clock", async (c) => c.json({ now_ms: await serviceOf(c.env).now() }));
control.post("/clock", (c) =>
  withBody(c, ClockRequest, async ({ advance_ms }) => {
    await computeOf(c.env).advance(advance_ms, null);
    return c.json({ now_ms: await serviceOf(c.env).advance(advance_ms) });
  }),
);

control.get("/instances", async (c) => c.json({ data: await serviceOf(c.env).instances() }));
control.post("/instances", (c) =>
  withBody(c, InstanceRequest, async (instance) => {
    await serviceOf(c.env).putInstance(instance);
    return c.json(instance, 201);
  }),
);

control.get("/regions", async (c) => c.json({ data: await serviceOf(c.env).regions() }));
control.post("/regions", (c) =>
  withBody(c, RegionRequest, async ({ region, healthy }) => {
    await serviceOf(c.env).putRegion(region, healthy);
    return c.json({ region, healthy });
  }),
);

function logged(c: Context<Control>, onlyExecuted: boolean): Promise<Call[]> {
  const wanted = {
    onlyExecuted,
    models: c.req.queries("model") ?? null,
    requestIds: c.req.queries("request_id") ?? null,
  };
  const after = Number(c.req.query("after") ?? 0) || 0;
  return wholeLog(after, (afterId) => serviceOf(c.env).calls({ ...wanted, afterId }));
}
