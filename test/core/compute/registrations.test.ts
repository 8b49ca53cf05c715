/** What a registration may say and change; the host that a stored credential belongs to. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  changeImage,
  type ImageBody,
  type ImageDecision,
  type ImageFacts,
  MOST_REFERENCE,
  type Registration,
  readReference,
  registerImage,
  sameImage,
} from "../../../src/core/compute/registrations.ts";

const DEDICATED: ImageFacts = { shared: false, others: [] };
const SHARED: ImageFacts = { shared: true, others: [] };
const PAIR = { registry_username: "robot", registry_secret: "s3cret" };
const REMOVED = { registry_username: "", registry_secret: "" };
const ECR = "123456789012.dkr.ecr.eu-west-1.amazonaws.com/app:1";
const HEX = "0123456789abcdef".repeat(4);

const stored = (registryUrl: string): Registration => ({ name: "app", registryUrl, username: "robot" });
const bare = (registryUrl: string): Registration => ({ name: "app", registryUrl, username: null });

function faultOf(decision: ImageDecision) {
  if (decision.ok || decision.refusal.kind !== "compute") return "accepted";
  const { refusal } = decision.refusal;
  return refusal.kind === "invalid" ? `invalid ${refusal.param}` : refusal.kind;
}
const post = (body: ImageBody, facts = DEDICATED) => registerImage({ ...body, name: body.name ?? "app" }, facts);
const put = (before: Registration, body: ImageBody, facts = DEDICATED, settled = true) =>
  changeImage(before, settled, body, facts);

describe("a reference", () => {
  it.each([
    ["app", "docker.io", "app", null],
    ["app:5000", "docker.io", "app", "5000"],
    ["team/app:1.0", "docker.io", "team/app", "1.0"],
    ["docker.io/library/app", "docker.io", "library/app", null],
    ["index.docker.io/library/app", "docker.io", "library/app", null],
    ["Registry-1.Docker.IO/library/app", "docker.io", "library/app", null],
    ["GHCR.io/team/app:1", "ghcr.io", "team/app", "1"],
    ["ghcr.io:443/team/app:1", "ghcr.io", "team/app", "1"],
    ["registry.example.com:5000/app", "registry.example.com:5000", "app", null],
    ["localhost/app", "localhost", "app", null],
    ["[::1]:5000/app", "[::1]:5000", "app", null],
    ["REGISTRY/app", "registry", "app", null],
  ])("%s is at %s", (text, host, path, tag) => {
    expect(readReference(text)).toEqual({ host, path, tag, digest: null });
  });

  it("may name a digest, with or without a tag", () => {
    expect(readReference(`quay.io/app:1@sha256:${HEX.toUpperCase()}`)).toEqual({
      host: "quay.io",
      path: "app",
      tag: "1",
      digest: `sha256:${HEX}`,
    });
  });

  it.each([
    "",
    "https://ghcr.io/app",
    "//ghcr.io/app",
    "user:password@ghcr.io/app",
    "user@ghcr.io/app",
    "ghcr.io@evil.example/app",
    "ghcr.io\\@evil.example/app",
    "ghcr.io/app?x=1",
    "ghcr.io/app#x",
    "ghcr.io/../app",
    "ghcr.io/./app",
    "ghcr.io//app",
    "ghcr.io/app/",
    "ghcr.io/App",
    "ghcr.io./app",
    ".ghcr.io/app",
    "-ghcr.io/app",
    "ghcr..io/app",
    "ghcr.io:port/app",
    "ghcr.io:123456/app",
    "ghcr。io/app",
    "ghcr．io/app",
    "ghсr.io/app",
    "ghcr.io%2fevil/app",
    "ghcr.io /app",
    "ghcr.io/app\n",
    "ghcr.io/app:1:2",
    "ghcr.io/app:",
    "app@sha256:12",
    `app@sha256:${HEX}@sha256:${HEX}`,
    `ghcr.io/${"a".repeat(MOST_REFERENCE)}`,
  ])("%j is none", (text) => {
    expect(readReference(text)).toBeUndefined();
    expect(faultOf(post({ registry_url: text }))).toBe("invalid registry_url");
  });

  it.each([
    ["app", "docker.io/library/app:latest", true],
    ["app", "index.docker.io/app", true],
    ["DOCKER.io/library/app:1", "app:1", true],
    ["ghcr.io/a:1", "GHCR.IO:443/a:1", true],
    ["app", "app:1", false],
    ["team/app", "library/team/app", false],
    ["ghcr.io/app", "app", false],
    ["ghcr.io:444/a", "ghcr.io/a", false],
    [`a:1@sha256:${HEX}`, `a:2@sha256:${HEX}`, true],
    ["No Reference", "No Reference", true],
    ["No Reference", "no reference", false],
  ])("%s and %s: the same image is %s", (one, other, same) => {
    expect([sameImage(one, other), sameImage(other, one)]).toEqual([same, same]);
  });
});

describe("POST", () => {
  it("takes a pair to the one host, and keeps no secret of it", () => {
    const decision = post({ registry_url: "ghcr.io/team/app:1", ...PAIR });
    expect(decision).toEqual({
      ok: true,
      after: { name: "app", registryUrl: "ghcr.io/team/app:1", username: "robot" },
      request: { registry_url: "ghcr.io/team/app:1", ...PAIR },
    });
  });

  it.each([
    ["the user alone", { registry_username: "robot" }],
    ["the secret alone", { registry_secret: "s" }],
    ["an empty user", { registry_username: "", registry_secret: "s" }],
    ["an empty secret", { registry_username: "robot", registry_secret: "" }],
    ["an empty user alone", { registry_username: "" }],
  ])("refuses %s", (_, body) => {
    expect(faultOf(post({ registry_url: "ghcr.io/a:1", ...body }))).toMatch(/^invalid registry_(username|secret)$/);
    expect(faultOf(put(stored("ghcr.io/a:1"), body))).toMatch(/^invalid registry_(username|secret)$/);
  });

  it("without a credential, or with two empty fields, registers a public image", () => {
    const registered = { ok: true, after: bare("app:1"), request: { registry_url: "app:1" } };
    expect(post({ registry_url: "app:1" })).toEqual(registered);
    expect(post({ registry_url: "app:1", ...REMOVED })).toEqual(registered);
  });

  it.each([
    ECR,
    ECR.toUpperCase().replace("/APP", "/app"),
    "123456789012.dkr.ecr-fips.us-east-1.amazonaws.com/app",
    "123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn/app",
    "123456789012.dkr-ecr.eu-west-1.on.aws:443/app",
  ])("takes no pair for %s, but the image", (registry_url) => {
    expect(faultOf(post({ registry_url, ...PAIR }))).toBe("invalid registry_secret");
    expect(faultOf(post({ registry_url }))).toBe("accepted");
    expect(faultOf(put(bare(registry_url), PAIR))).toBe("invalid registry_secret");
    expect(faultOf(put(stored("ghcr.io/a"), { registry_url, ...PAIR }))).toBe("invalid registry_secret");
  });

  it("takes a pair for AWS's public registry", () => {
    expect(faultOf(post({ registry_url: "public.ecr.aws/team/app:1", ...PAIR }))).toBe("accepted");
  });

  it("takes no pair where others share the upstream account, and sends nothing there", () => {
    expect(faultOf(post({ registry_url: "ghcr.io/a:1", ...PAIR }, SHARED))).toBe("invalid registry_secret");
    expect(post({ registry_url: "ghcr.io/a:1" }, SHARED)).toMatchObject({ ok: true, request: null });
    expect(faultOf(put(bare("ghcr.io/a:1"), PAIR, SHARED))).toBe("invalid registry_secret");
    expect(put(bare("ghcr.io/a:1"), { registry_url: "b:1" }, SHARED)).toMatchObject({ ok: true, request: null });
  });

  it("registers a reference once, and each tag by itself", () => {
    const facts = { shared: false, others: [bare("ghcr.io/a:1")] };
    expect(faultOf(post({ registry_url: "ghcr.io/a:1" }, facts))).toBe("duplicate");
    expect(faultOf(post({ registry_url: "ghcr.io/a:2" }, facts))).toBe("accepted");
    expect(faultOf(put(bare("b:1"), { registry_url: "ghcr.io/a:1" }, facts))).toBe("duplicate");
  });
});

describe("PUT", () => {
  it("of a name changes nothing upstream and leaves the credential", () => {
    const decision = put(stored("ghcr.io/a:1"), { name: "other" });
    expect(decision).toEqual({ ok: true, after: { ...stored("ghcr.io/a:1"), name: "other" }, request: null });
    expect(put(stored("a:1"), { registry_url: "a:1" })).toMatchObject({ ok: true, request: null });
  });

  it("with a pair replaces the credential, with two empty fields removes it", () => {
    expect(put(bare("ghcr.io/a:1"), PAIR)).toMatchObject({ after: { username: "robot" }, request: PAIR });
    expect(put(stored("ghcr.io/a:1"), REMOVED)).toMatchObject({ after: { username: null }, request: REMOVED });
  });

  it.each([
    ["ghcr.io/team/app:1", "evil.example/team/app:1"],
    ["app:1", "evil.example/app:1"],
    ["ghcr.io/team/app:1", "team/app:1"],
    ["ghcr.io/team/app:1", "ghcr.io:8443/team/app:1"],
    ["ghcr.io/team/app:1", "sub.ghcr.io/team/app:1"],
    ["localhost/app:1", "LOCALHOST.example/app:1"],
    ["docker.io/app:1", "docker.io.evil.example/app:1"],
    ["app:1", ECR],
  ])("from %s to %s needs the credential anew, or its removal", (before, registry_url) => {
    expect(faultOf(put(stored(before), { registry_url }))).toBe("invalid registry_url");
    expect(put(stored(before), { registry_url, ...REMOVED })).toMatchObject({ request: { registry_url, ...REMOVED } });
    expect(put(bare(before), { registry_url })).toMatchObject({ request: { registry_url } });
    if (registry_url === ECR) return;
    expect(put(stored(before), { registry_url, ...PAIR })).toMatchObject({ request: { registry_url, ...PAIR } });
  });

  it.each([
    ["ghcr.io/team/app:1", "ghcr.io/other/app:2"],
    ["ghcr.io/team/app:1", "GHCR.IO/team/app:1"],
    ["x:1", "docker.io/library/x:1"],
    ["docker.io/library/x:1", "index.docker.io/x:1"],
  ])("from %s to %s stays with its host: the credential may stay", (before, registry_url) => {
    expect(put(stored(before), { registry_url })).toEqual({
      ok: true,
      after: { ...stored(registry_url) },
      request: { registry_url },
    });
  });

  it("after a lost answer relies on nothing that may be stored", () => {
    const unsure = (before: Registration, body: ImageBody) => put(before, body, DEDICATED, false);
    expect(faultOf(unsure(stored("ghcr.io/a:1"), { registry_url: "ghcr.io/a:2" }))).toBe("invalid registry_url");
    expect(faultOf(unsure(bare("ghcr.io/a:1"), { registry_url: "ghcr.io/a:2" }))).toBe("invalid registry_url");
    expect(unsure(stored("ghcr.io/a:1"), { name: "b" })).toMatchObject({ ok: true, request: null });
    // The reference is sent again with the pair: upstream may hold another one.
    expect(unsure(stored("ghcr.io/a:1"), PAIR)).toMatchObject({ request: { registry_url: "ghcr.io/a:1", ...PAIR } });
    expect(unsure(stored("a:1"), REMOVED)).toMatchObject({ request: { registry_url: "a:1", ...REMOVED } });
  });
});

describe("whatever PUTs follow each other", () => {
  const urls = fc.constantFrom("a:1", "docker.io/library/a:1", "ghcr.io/a:1", "GHCR.io/a:2", "evil.example/a:1", ECR);
  const bodies = fc.record(
    {
      name: fc.constantFrom("a", "b"),
      registry_url: urls,
      registry_username: fc.constantFrom("", "robot"),
      registry_secret: fc.constantFrom("", "secret-of-nobody"),
    },
    { requiredKeys: [] },
  );

  it("upstream offers a secret to the host for which it was given, and to no other", () => {
    fc.assert(
      fc.property(fc.array(bodies, { maxLength: 12 }), fc.boolean(), (puts, shared) => {
        let now: Registration = bare("a:1");
        // A service that believes whatever it is told: it offers the secret to the host of the last reference.
        let offered = null as { readonly secretOf: string; readonly at: string } | null;
        for (const body of puts) {
          const decision = put(now, body, { shared, others: [] });
          if (!decision.ok) continue;
          now = decision.after;
          expect(JSON.stringify(now)).not.toContain("secret-of-nobody");
          const { request } = decision;
          if (shared) expect(request).toBeNull();
          const at = readReference(request?.registry_url ?? now.registryUrl)?.host ?? "";
          if (request?.registry_secret) offered = { secretOf: at, at };
          else if (request?.registry_secret === "") offered = null;
          else if (offered) offered = { ...offered, at };
          if (offered) expect(offered.at).toBe(offered.secretOf);
          expect(now.username !== null).toBe(offered !== null);
        }
      }),
    );
  });
});
