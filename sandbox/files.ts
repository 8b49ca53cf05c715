/**
 * `/files`: results at temporary links. A link says what the file is made of, so nothing is stored; after its time by
 * the sandbox's clock it answers 404. As with signed links, no key is needed.
 */
import { Hono } from "hono";
import type { Site } from "./endpoint.ts";
import { type SandboxEnv, serviceOf } from "./env.ts";
import { png } from "./images/png.ts";
import { refusalBody } from "./refusal.ts";

type FileName = "image.png";

/** The address of a file that is made of these numbers, good for so long from now. */
export function fileLink(
  { origin, nowMs }: Pick<Site, "origin" | "nowMs">,
  name: FileName,
  facts: Readonly<Record<string, number>>,
  lifetimeMs: number,
): string {
  const query = new URLSearchParams({ expires: String(nowMs + lifetimeMs) });
  for (const [fact, value] of Object.entries(facts)) query.set(fact, String(value));
  return `${origin}/files/${name}?${query}`;
}

const LARGEST_SIDE = 4_096;

export const files = new Hono<{ Bindings: SandboxEnv }>();

files.get("/:name", async (c) => {
  const fact = (name: string) => Number(c.req.query(name) ?? 0);
  const message = "The link has expired or never was.";
  const gone = () => c.json(refusalBody({ status: 404, code: "not_found", message, param: null }, "openai"), 404);
  if (!(fact("expires") > (await serviceOf(c.env).now()))) return gone();
  if (c.req.param("name") === "image.png") {
    const [width, height] = [fact("width"), fact("height")];
    if (!(width >= 1 && height >= 1 && width <= LARGEST_SIDE && height <= LARGEST_SIDE)) return gone();
    return c.body(await png(width, height, fact("seed")), 200, { "content-type": "image/png" });
  }
  return gone();
});
