/** `GET /healthz`: needs no key. That it answers shows that the Worker runs and has its secrets. */
import { version } from "../../package.json";

export const health = ({ COMMIT }: Pick<Env, "COMMIT">): Response =>
  Response.json({ ok: true, version, commit: COMMIT || null }, { headers: { "cache-control": "no-store" } });
