/**
 * Static assets, which the Worker alone hands out: `run_worker_first` in wrangler.toml sends every request here first.
 * `scripts/assets.ts` makes them.
 */

/** Paths of the OpenAPI documents among the assets. */
export const TENANT_DOCUMENT = "/documents/tenant.json";
export const OPERATOR_DOCUMENT = "/documents/operator.json";

/** An OpenAPI document as a response. A missing one is a defect of the deployment. */
export async function documentResponse(assets: Fetcher, path: string): Promise<Response> {
  const asset = await assets.fetch(new Request(`http://assets.invalid${path}`));
  if (!asset.ok) throw new Error(`the asset ${path} answers ${asset.status}`);
  return new Response(asset.body, { headers: { "content-type": "application/json", "cache-control": "no-store" } });
}
