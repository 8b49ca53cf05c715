/** Paths and headers of services: what passes stays below the service's own prefix, and carries no key. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { serviceHeadersIn, serviceHeadersOut } from "../../../src/core/compute/service-headers.ts";
import { ourLocation, servicePathFault, servicePathOf } from "../../../src/core/compute/service-path.ts";

const KEY = `sk-tg-${"Ab3".repeat(12)}xy`;
const encoded = (text: string) =>
  [...text].map((one) => `%${one.charCodeAt(0).toString(16).padStart(2, "0")}`).join("");

/** Text that an attacker would try: steps upwards in many spellings, between ordinary pieces. */
const pieces = fc.constantFrom(
  ...["..", ".", "/", "//", "\\", "%2e", "%2E%2e", "%2f", "%5c", "%252e", "%25252f", "%00", "%c0%ae", "..;a=b", ";"],
  ...["\t", " ", "?", "#", "@", ":", "host", "gpu-instances", "7", "service", "billing", "%e2%80%a5", "\uff0e", "a.b"],
  encoded(encoded("../")),
);
const hostile = fc.oneof(
  fc.array(pieces, { maxLength: 12 }).map((all) => all.join("")),
  fc.string(),
);

describe("a service path", () => {
  test.each([
    ["http://h/gpu-instances/1000/service", { kind: "instance", id: "1000", rest: "", query: "" }],
    ["http://h/gpu-instances/1000/service/", { kind: "instance", id: "1000", rest: "/", query: "" }],
    [
      "https://h:8/gpu-clusters/x/service//a/b?q=/service/#f",
      { kind: "cluster", id: "x", rest: "//a/b", query: "?q=/service/" },
    ],
    ["http://h/gpu-instances//service?x", { kind: "instance", id: "", rest: "", query: "?x" }],
  ])("%s is one", (url, path) => expect(servicePathOf(url)).toEqual(path));

  test.each([
    "/gpu-instances/1/services",
    "/gpu-instances/1/service-x/",
    "/x/gpu-instances/1/service/",
    "/gpu-drives/1/service/",
    "/gpu-instances/1/%73ervice/",
    "/gpu-instances/1/2/service/",
  ])("%s is none", (path) => expect(servicePathOf(`http://h${path}`)).toBeNull());

  test.each([
    ["..%2f..%2fbilling", "path"],
    ["%2e%2e/billing", "path"],
    [".%2E/billing", "path"],
    ["a/%252e%252e/b", "path"],
    ["a/%25252e%25252e%25252fb", "path"],
    ["../billing", "path"],
    ["a/./b", "path"],
    ["a\\..\\b", "path"],
    ["a%5c..%5cb", "path"],
    ["..;/billing", "path"],
    ["..%3bx/billing", "path"],
    ["%c0%ae%c0%ae/billing", "path"],
    ["%e0%80%ae%e0%80%ae/billing", "path"],
    ["a%00", "path"],
    ["%25252525252525252e", "path"],
    [`x?api_key=${KEY}`, "key_in_url"],
    [`x?api_key=${encoded(KEY)}`, "key_in_url"],
    [`x/${KEY}/y`, "key_in_url"],
    ["v1/models/meta%2fllama", null],
    ["a..b/.hidden/...", null],
    ["%5Ba%5D/b%20c/%e9?x=../..&y=%2e%2e", null],
    ["/host/path", null],
    ["100%/x%zz", null],
  ])("/service/%s: %s", (text, fault) => {
    const { rest, query } = servicePathOf(`http://h/gpu-instances/1/service/${text}`) ?? expect.fail();
    expect(servicePathFault({ rest, query })).toBe(fault);
  });

  test("that passes keeps its prefix, read as a URL and however often a server decodes it", () => {
    fc.assert(
      fc.property(hostile, hostile, (path, query) => {
        const found = servicePathOf(`http://h/gpu-instances/1000/service/${path}?${query}`);
        if (!found || servicePathFault(found) !== null) return;
        const prefix = "/root/gpu-instances/7/service";
        let url = new URL(`https://up.example:8443${prefix}${found.rest}${found.query}`);
        expect(url.origin).toBe("https://up.example:8443");
        expect(url.pathname.startsWith(`${prefix}/`)).toBe(true);
        for (let decoded = 0; decoded < 6; decoded++) {
          const text = url.pathname.replace(/%([0-9a-f]{2})/gi, (_, hex) =>
            String.fromCharCode(Number.parseInt(hex, 16)),
          );
          // A decoded question mark or number sign ends no path.
          url = new URL(`https://up.example:8443${text.replace(/[?#]/g, "_")}`);
          expect(url.pathname.startsWith(`${prefix}/`)).toBe(true);
        }
      }),
      { numRuns: 2_000 },
    );
  });
});

describe("a redirect", () => {
  const place = {
    rest: "/app/page",
    upstreamHost: "up.example:8443",
    upstreamPrefix: "/root/gpu-instances/7/service",
    ourPrefix: "/gpu-instances/1000/service",
  };
  test.each([
    ["/login?next=/a#top", "/login?next=/a#top"],
    ["/root/gpu-instances/7/service/login", "/login"],
    ["/root/gpu-instances/7/service", "/"],
    ["/root/gpu-instances/8/service/login", "/root/gpu-instances/8/service/login"],
    ["https://up.example:8443/root/gpu-instances/7/service/x", "/x"],
    ["http://UP.example:8443/root/billing", "/root/billing"],
    ["https://up.example:8443", "/"],
    ["//up.example:8443/x", "/x"],
    ["next", "/app/next"],
    ["../../../../billing", "/billing"],
    ["./", "/app/"],
    ["?page=2", "/app/page?page=2"],
    ["", "/app/page"],
  ])("to %j stays below the service", (location, expected) =>
    expect(ourLocation(location, place)).toBe(`${place.ourPrefix}${expected}`),
  );

  test.each([
    "https://evil.example/",
    "//evil.example/x",
    "https://up.example:8443@evil.example/",
    "https://key@up.example:8443/",
    "https://up.example/",
    "javascript:alert(1)",
    "data:text/html,x",
    "https:evil.example",
    "/\\evil.example",
    "\\\\evil.example",
    "/%2e%2e/%2e%2e/billing",
    "/a\tb",
    `/x?key=${KEY}`,
  ])("to %j does not pass", (location) => expect(ourLocation(location, place)).toBeNull());

  test("from a path with a query inside does not pass", () =>
    expect(ourLocation("", { ...place, rest: "/..?" })).toBeNull());

  test("that passes is below the service, as a client resolves it", () => {
    const scheme = fc.constantFrom("", "https://up.example:8443", "//up.example:8443", "http:", "https://evil.example");
    fc.assert(
      fc.property(scheme, hostile, hostile, (before, location, rest) => {
        const found = ourLocation(before + location, { ...place, rest: `/${rest}` });
        if (found === null) return;
        const url = new URL(found, "https://ours.example/gpu-instances/1000/service/app/page");
        expect(url.origin).toBe("https://ours.example");
        expect(url.pathname.startsWith(`${place.ourPrefix}/`)).toBe(true);
      }),
      { numRuns: 2_000 },
    );
  });
});

describe("headers", () => {
  const inwards = (...sent: [string, string][]) => {
    const passed = serviceHeadersIn(sent);
    return passed.ok ? passed.headers.map(([name]) => name) : passed.fault;
  };

  test("that describe the content and the client go in, and what the tenant made up", () => {
    const names = [
      "Content-Type",
      "Range",
      "If-None-Match",
      "Accept-Language",
      "User-Agent",
      "X-My-App",
      "X-Stainless-Lang",
    ];
    expect(inwards(...names.map((name): [string, string] => [name, "v"]))).toEqual(
      names.map((name) => name.toLowerCase()),
    );
    expect(inwards(["Sec-WebSocket-Protocol", "chat"])).toEqual(["sec-websocket-protocol"]);
  });

  test.each([
    ["keys and cookies", ["authorization", "proxy-authorization", "x-api-key", "api-key", "cookie", "X-Goog-Api-Key"]],
    [
      "what proxies say",
      [
        "x-forwarded-for",
        "X-Forwarded-Host",
        "forwarded",
        "via",
        "x-real-ip",
        "true-client-ip",
        "cf-connecting-ip",
        "x-client-ip",
        "x-envoy-internal",
        "x-remote-user",
      ],
    ],
    [
      "what makes it another request",
      [
        "x-original-url",
        "x-rewrite-url",
        "x-http-method-override",
        "x-method-override",
        "host",
        "content-length",
        "transfer-encoding",
        "expect",
      ],
    ],
    [
      "what belongs to one connection",
      [
        "connection",
        "keep-alive",
        "te",
        "trailer",
        "upgrade",
        "http2-settings",
        "proxy-connection",
        "sec-websocket-key",
        "sec-websocket-accept",
      ],
    ],
    ["a browser's origin", ["origin", "referer", "access-control-request-method", "sec-fetch-site"]],
    ["ours", ["x-request-id", "x-service-request-id", "x-tollgate-x", "x-answer-from"]],
    ["spellings of others", ["x_forwarded_for", "x-original_url", "x-a b", `x-${"a".repeat(200)}`]],
  ])("%s do not go in", (_, names) =>
    expect(inwards(...names.map((name): [string, string] => [name, "v"]))).toEqual([]),
  );

  test("that `connection` names stay, in any case and list", () => {
    expect(inwards(["Connection", "close, X-Secret"], ["x-secret", "1"], ["x-other", "1"])).toEqual(["x-other"]);
    expect(inwards(["connection", "upgrade"], ["connection", " RANGE "], ["range", "bytes=0-"])).toEqual([]);
  });

  test("that hold a virtual key are refused, where they would pass", () => {
    expect(inwards(["sec-websocket-protocol", `openai-insecure-api-key.${KEY}`])).toBe("key_in_header");
    expect(inwards(["x-note", KEY])).toBe("key_in_header");
    expect(inwards(["x-api-key", KEY], ["authorization", `Bearer ${KEY}`])).toEqual([]);
  });

  test("of more than 64 kB are refused, many or one", () => {
    expect(inwards(["x-big", "a".repeat(70_000)])).toBe("headers_too_large");
    expect(inwards(...Array.from({ length: 700 }, (_, at): [string, string] => [`x-${at}`, "a".repeat(100)]))).toBe(
      "headers_too_large",
    );
  });

  const outwards = (...got: [string, string][]) =>
    serviceHeadersOut(got, (text) => text.includes("secret")).map(([name]) => name);

  test("that describe an answer go out", () => {
    const names = ["content-type", "content-range", "etag", "retry-after", "x-pod", "allow", "accept-ranges"];
    expect(outwards(...names.map((name): [string, string] => [name, "v"]))).toEqual(names);
  });

  test.each([
    [
      "that act on our origin",
      [
        "set-cookie",
        "www-authenticate",
        "access-control-allow-origin",
        "service-worker-allowed",
        "clear-site-data",
        "content-security-policy",
        "strict-transport-security",
        "alt-svc",
        "link",
        "refresh",
        "content-location",
        "location",
        "report-to",
        "nel",
        "x-accel-redirect",
        "x-sendfile",
      ],
    ],
    [
      "that say our words",
      [
        "x-request-id",
        "x-service-region",
        "x-ratelimit-limit-requests",
        "x-should-retry",
        "x-answer-from",
        "X-Tollgate",
      ],
    ],
    [
      "of a connection",
      ["connection", "transfer-encoding", "content-length", "keep-alive", "upgrade", "trailer", "sec-websocket-accept"],
    ],
  ])("%s do not go out", (_, names) =>
    expect(outwards(...names.map((name): [string, string] => [name, "v"]))).toEqual([]),
  );

  test("with a telltale value do not go out", () =>
    expect(outwards(["x-pod", "a secret"], ["etag", "fine"])).toEqual(["etag"]));
});
