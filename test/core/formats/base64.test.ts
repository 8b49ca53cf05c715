import fc from "fast-check";
import { expect, it } from "vitest";
import { decodeBase64, encodeBase64 } from "../../../src/core/formats/base64.ts";

it("writes what every decoder reads, and reads its own", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
      const text = encodeBase64(bytes);
      expect(text).toBe(Buffer.from(bytes).toString("base64"));
      expect(decodeBase64(text)).toEqual(new Uint8Array(bytes));
    }),
  );
});

it("reads only the one encoding of some bytes", () => {
  fc.assert(
    fc.property(fc.stringMatching(/^[A-Za-z0-9+/=_\s-]{0,40}$/), (text) => {
      const bytes = decodeBase64(text);
      if (bytes) expect(encodeBase64(bytes)).toBe(text);
    }),
  );
});

it.each(["A", "AA", "AAA", "A===", "AB==", "AAB=", "=AAA", "AA=A", "AAAA====", "AA==AAAA", "AA A", "AAA\n", "AA-_"])(
  "refuses %j",
  (text) => {
    expect(decodeBase64(text)).toBeUndefined();
  },
);
