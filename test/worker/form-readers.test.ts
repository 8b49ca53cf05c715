/** Forms are one form for everybody: what goes upstream, as workerd reads it. undici and busboy: test/core. */
import fc from "fast-check";
import { expect, it } from "vitest";
import { comparable, HOSTILE_FORM, readAsFormData, rewritten } from "../support/forms.ts";

it("workerd finds in what goes upstream the fields that were judged, whatever the client sent", async () => {
  let accepted = 0;
  const property = fc.asyncProperty(HOSTILE_FORM, async (text) => {
    const sent = rewritten(text);
    if (!sent) return;
    accepted++;
    expect(comparable(await readAsFormData(sent.body, sent.contentType))).toEqual(comparable(sent.expected));
  });
  await fc.assert(property, { numRuns: 1_500 });
  expect(accepted).toBeGreaterThan(200);
});
