/**
 * The console's pages: static assets below `/console`. Every address there that is no file gets the one page, whose
 * script shows what the address names. Scripts and styles come from this origin alone, and none stands in the page
 * itself.
 */

const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** Built files have a digest in their names. */
const FILE = /^\/console\/[\w-]+\.(js|css|svg)$/;

export async function consolePage(request: Request, assets: Fetcher): Promise<Response> {
  const { pathname } = new URL(request.url);
  const file = FILE.test(pathname);
  const asset = await assets.fetch(new Request(`http://assets.invalid${file ? pathname : "/console/"}`));
  const headers = new Headers({
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "content-type": asset.headers.get("content-type") ?? "text/plain",
    "cache-control": file && asset.ok ? "public, max-age=31536000, immutable" : "no-cache",
  });
  return new Response(asset.body, { status: asset.status, headers });
}
