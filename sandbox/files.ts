/**
 * `/files`: results at temporary links. A link encodes what the file is made of, so nothing is stored. When it has
 * expired by the sandbox's clock it answers 404. As with signed links, no key is needed.
 */
import { Hono } from "hono";
import type { Site } from "./endpoint.ts";
import { type SandboxEnv, serviceOf } from "./env.ts";
import { png } from "./images/png.ts";
import { refusalBody } from "./refusal.ts";
import { mp4 } from "./video/mp4.ts";

type FileName = "image.png" | "video.mp4";

/** The address of a file that is made of these numbers, valid for `lifetimeMs` from now. */
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

const LARGEST_SIDE = 4_400;
const LONGEST_SECONDS = 15;

export const files = new Hono<{ Bindings: SandboxEnv }>();

files.get("/:name", async (c) => {
  const fact = (name: string) => Number(c.req.query(name) ?? 0);
  const message = "The link has expired or never was.";
  const gone = () => c.json(refusalBody({ status: 404, code: "not_found", message, param: null }, "openai"), 404);
  if (!(fact("expires") > (await serviceOf(c.env).now()))) return gone();
  const [width, height] = [fact("width"), fact("height")];
  if (!(width >= 1 && height >= 1 && width <= LARGEST_SIDE && height <= LARGEST_SIDE)) return gone();
  switch (c.req.param("name") as FileName) {
    case "image.png":
      return c.body(await png(width, height, fact("seed")), 200, { "content-type": "image/png" });
    case "video.mp4": {
      const seconds = Math.min(Math.max(1, fact("seconds")), LONGEST_SECONDS);
      return c.body(mp4(width, height, seconds), 200, { "content-type": "video/mp4" });
    }
    default:
      return gone();
  }
});
