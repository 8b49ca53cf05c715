/** The JSON test suite: what it calls `n_` is refused, what it calls `y_` is read as the language's own reader reads it. */
import { describe, expect, it } from "vitest";
import { parseJson } from "../../../src/core/formats/json.ts";
import { ACCEPTED, LISTS, NUMBERS, OBJECTS, TEXTS, WHOLE } from "../../support/json-cases.ts";

/** What is no fault of the JSON, but of a name that no endpoint takes. */
const NO_FAULT = OBJECTS.filter((value) => value.includes("__proto__"));
const BROKEN = OBJECTS.filter((value) => !NO_FAULT.includes(value));

const bytes = (text: string) => new TextEncoder().encode(text);

describe("refused", () => {
  it.each([...LISTS, ...NUMBERS, ...BROKEN, ...TEXTS])("%j as a field", (value) => {
    expect(parseJson(bytes(`{"a":${value}}`)).ok).toBe(false);
  });
  it.each([...LISTS, ...BROKEN, ...TEXTS])("%j as the whole", (value) => {
    expect(parseJson(bytes(value)).ok).toBe(false);
  });
  it.each(NO_FAULT)("not here: %j", (value) => {
    expect(parseJson(bytes(value)).ok).toBe(true);
  });
  it.each(WHOLE)("%s", (_name, body) => {
    expect(parseJson(new Uint8Array(body)).ok).toBe(false);
  });
});

describe("accepted", () => {
  it.each(ACCEPTED)("%j", (value) => {
    expect(parseJson(bytes(`{"a":${value}}`))).toMatchObject({ ok: true, value: JSON.parse(`{"a":${value}}`) });
  });
});
