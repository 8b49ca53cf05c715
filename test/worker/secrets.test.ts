import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { shapeKey, tagOf } from "../../src/core/account/api-key.ts";
import { type AccountNumber, asId } from "../../src/core/ids.ts";
import { readSecrets } from "../../src/platform/secrets.ts";

const secrets = async (values: object = env) => {
  const outcome = await readSecrets(values);
  if (!outcome.ok) throw new Error(outcome.fault.message);
  return outcome.secrets;
};
const good = { KEY_PEPPER: env.KEY_PEPPER, MASTER_KEY: env.MASTER_KEY };

describe("secrets", () => {
  it.each([
    ["KEY_PEPPER", { ...good, KEY_PEPPER: undefined }, "is not set"],
    ["KEY_PEPPER", { ...good, KEY_PEPPER: "p".repeat(31) }, "too short"],
    ["MASTER_KEY", { ...good, MASTER_KEY: undefined }, "is not set"],
    ["MASTER_KEY", { ...good, MASTER_KEY: btoa("m".repeat(31)) }, "unusable"],
    ["MASTER_KEY", { ...good, MASTER_KEY: "not base64!" }, "unusable"],
  ])("%s that cannot be used is a fault with its name", async (secret, values, words) => {
    const outcome = await readSecrets(values);
    expect(outcome).toMatchObject({ ok: false, fault: { secret } });
    expect(outcome.ok ? "" : outcome.fault.message).toContain(words);
  });

  it("a new key carries its account's number and a tag that only the pepper makes", async () => {
    const { newKey, hmac, digestOf } = await secrets();
    const key = await newKey(asId<AccountNumber>(42));
    const shaped = shapeKey(key.text);
    expect(shaped?.number).toBe(42);
    expect(tagOf(await hmac(shaped?.signed ?? ""))).toBe(shaped?.tag);
    expect(key.lastFour).toBe(key.text.slice(-4));
    expect(key.digest).toBe(await digestOf(key.text));
    const other = await secrets({ ...good, KEY_PEPPER: "another-pepper-of-thirty-two-chars" });
    expect(tagOf(await other.hmac(shaped?.signed ?? ""))).not.toBe(shaped?.tag);
    expect(await other.digestOf(key.text)).not.toBe(key.digest);
  });

  it("a sealed credential opens for its upstream under its master key, and nowhere else", async () => {
    const { seal, unseal } = await secrets();
    const sealed = await seal("main", "sk-upstream-credential");
    expect(sealed).not.toContain("credential");
    expect(await seal("main", "sk-upstream-credential")).not.toBe(sealed);
    expect(await unseal("main", sealed)).toBe("sk-upstream-credential");
    expect(await unseal("main", sealed)).toBe("sk-upstream-credential");
    await expect(unseal("other", sealed)).rejects.toThrow();
    await expect(unseal("main", sealed.slice(0, -6))).rejects.toThrow();
    const other = await secrets({ ...good, MASTER_KEY: btoa("m".repeat(32)) });
    await expect(other.unseal("main", sealed)).rejects.toThrow();
  });
});
