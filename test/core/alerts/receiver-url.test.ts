import fc from "fast-check";
import { expect, it } from "vitest";
import { originsIn, receiverFault } from "../../../src/core/alerts/receiver-url.ts";

const fault = (url: string, origins: readonly string[] = []) => receiverFault(url, "gate.example.com:443", origins);

it.each([
  "https://hooks.example.com",
  "https://hooks.example.com/",
  "https://hooks.example.com:443/a/b?c=d&e=%20",
  "https://xn--bcher-kva.example/x",
  "https://HOOKS.example.com/x",
])("takes %s", (url) => {
  expect(fault(url)).toBeUndefined();
});

it.each([
  ["http", "http://hooks.example.com/"],
  ["another port", "https://hooks.example.com:8443/"],
  ["an empty port", "https://hooks.example.com:/"],
  ["a user", "https://user@hooks.example.com/"],
  ["a host behind a user", "https://hooks.example.com@169.254.169.254/"],
  ["a backslash", "https://hooks.example.com\\@127.0.0.1/"],
  ["a tab", "https://hooks.exam\tple.com/"],
  ["a fragment", "https://hooks.example.com/#x"],
  ["a private address", "https://10.0.0.1/"],
  ["a public address", "https://8.8.8.8/"],
  ["a short address", "https://127.1/"],
  ["a decimal address", "https://2130706433/"],
  ["a hex address", "https://0x7f000001/"],
  ["a hex part", "https://0x7f.0.0.1/"],
  ["an octal address", "https://0177.0.0.1/"],
  ["an address with a last part in hex", "https://127.0.0.0x1/"],
  ["IPv6", "https://[2606:4700::1111]/"],
  ["a mapped IPv4", "https://[::ffff:127.0.0.1]/"],
  ["wide digits", "https://\uff11\uff12\uff17.0.0.1/"],
  ["another script", "https://bücher.example/"],
  ["an encoded host", "https://%6c%6f%63%61lhost.com/"],
  ["a local name", "https://localhost/"],
  ["a name below a local one", "https://a.localhost/"],
  ["a local domain", "https://printer.local/"],
  ["an inner domain", "https://db.svc.internal/"],
  ["cloud metadata", "https://metadata.google.internal/"],
  ["a single label", "https://intranet/"],
  ["a dot at the end", "https://hooks.example.com./"],
  ["an empty label", "https://hooks..example.com/"],
  ["this gateway", "https://gate.example.com/admin"],
  ["this gateway in capitals", "https://GATE.example.com/"],
  ["another scheme", "file:///etc/passwd"],
  ["data", "data:text/plain,x"],
  ["nothing", ""],
  ["a long one", `https://hooks.example.com/${"x".repeat(2_000)}`],
])("refuses %s", (_, url) => {
  expect(fault(url)).toBeTypeOf("string");
});

it("what it takes has a host name and no port for the URL parser too", () => {
  const texts = fc.oneof(fc.webUrl({ validSchemes: ["https"], withQueryParameters: true }), fc.string(), fc.ipV4());
  fc.assert(
    fc.property(texts, (text) => {
      for (const url of [text, `https://${text}`]) {
        if (fault(url) !== undefined) continue;
        const { protocol, hostname, port, username, password } = new URL(url);
        expect([protocol, port, username, password]).toEqual(["https:", "", "", ""]);
        expect(hostname).toMatch(/^[a-z0-9.-]+\.[a-z0-9-]*[a-z-][a-z0-9-]*$/);
      }
    }),
    { numRuns: 50 },
  );
});

it("takes exact origins that tests opened, and no other", () => {
  const origins = originsIn("http://127.0.0.1:9999, https://hooks.test:8443/");
  expect(fault("http://127.0.0.1:9999/hook", origins)).toBeUndefined();
  expect(fault("https://hooks.test:8443", origins)).toBeUndefined();
  expect(fault("http://127.0.0.1:99991/hook", origins)).toBeTypeOf("string");
  expect(fault("http://127.0.0.1:9999@evil.example.com/", origins)).toBeTypeOf("string");
  expect(originsIn("")).toEqual([]);
});
