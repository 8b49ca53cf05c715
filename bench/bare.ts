/** The Worker that everything is compared with: the request goes to the upstream with only its host changed. */
export default {
  fetch(request: Request, env: { UPSTREAM_HOST: string }): Promise<Response> {
    const url = new URL(request.url);
    url.host = env.UPSTREAM_HOST;
    return fetch(new Request(url, request));
  },
};
