/** A body, or a part of it, that is kept until nobody needs it any more. Its call lives on without it. */
export class Kept<Value> {
  #value: Value | null;

  constructor(value: Value) {
    this.#value = value;
  }

  get(): Value {
    if (this.#value === null) throw new Error("the body was dropped");
    return this.#value;
  }

  /** What was kept; null if it was dropped before. */
  drop(): Value | null {
    const value = this.#value;
    this.#value = null;
    return value;
  }
}

/** The body without members that nobody reads any more: what is sent of them is encoded, what they hold is counted. */
export function without<Body>(body: Body, members: readonly (keyof Body & string)[]): Body {
  if (members.length === 0) return body;
  const light = { ...body };
  for (const member of members) delete (light as Partial<Body>)[member];
  return light;
}
