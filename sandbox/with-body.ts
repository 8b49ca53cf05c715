/** The bodies of `/_sandbox`. */
import type { Context } from "hono";
import type { z } from "zod";
import { check } from "./check.ts";
import type { SandboxEnv } from "./env.ts";
import { refusalBody } from "./refusal.ts";

/** Carries out what the body asks for; 400 where it is not what the schema says. */
export async function withBody<S extends z.ZodType>(
  c: Context<{ Bindings: SandboxEnv }>,
  schema: S,
  act: (body: z.output<S>) => Promise<Response>,
): Promise<Response> {
  const value: unknown = await c.req.json().catch(() => undefined);
  const body = check(value, schema);
  return body.ok ? act(body.value) : c.json(refusalBody(body.refusal, "openai"), 400);
}
