/**
 * Completes a chat stream that ends without a `finish_reason`. The service's contract does not name the field, but
 * clients treat a choice without it as cut off. Each open choice gets a last chunk in the place where OpenAI sends it:
 * before the usage chunk, once `[DONE]` has shown that the stream is whole.
 */
import type { Added } from "./added-events.ts";
import { asObject } from "./json-fields.ts";
import { isText } from "./response-items.ts";

type Reason = "stop" | "tool_calls" | "function_call";

/** Members that are equal in all chunks of a stream. */
const HEAD = ["id", "object", "created", "model", "service_tier", "system_fingerprint"];

export class ChatFinish {
  readonly #most: number;
  readonly #usageAsked: boolean;
  /** Choices that have begun and not finished, with the reason that each would finish for. */
  readonly #open = new Map<number, Reason>();
  readonly #finished = new Set<number>();
  #last: Record<string, unknown> = {};

  /** `most`: the largest number of choices in one stream. `usageAsked`: added chunks have `usage: null`. */
  constructor(most: number, usageAsked: boolean) {
    this.#most = most;
    this.#usageAsked = usageAsked;
  }

  chunk(chunk: Record<string, unknown>): void {
    if (!Array.isArray(chunk.choices) || chunk.choices.length === 0) return;
    this.#last = chunk;
    for (const entry of chunk.choices) {
      const choice = asObject(entry);
      if (choice) this.#choice(choice);
    }
  }

  #choice({ index = 0, finish_reason: finished, delta }: Record<string, unknown>): void {
    if (typeof index !== "number") return;
    if (isText(finished)) {
      this.#open.delete(index);
      if (this.#finished.size < this.#most) this.#finished.add(index);
      return;
    }
    const called = calledIn(asObject(delta));
    if (!called && this.#open.has(index)) return;
    if (this.#finished.has(index) || (!this.#open.has(index) && this.#open.size >= this.#most)) return;
    this.#open.set(index, called ?? "stop");
  }

  /** Whether a choice is open. Then a usage chunk must wait for the choice's last chunk. */
  get open(): boolean {
    return this.#open.size > 0;
  }

  /** The chunks to add before `[DONE]`; none if each choice has finished. */
  end(): Added {
    if (!this.open) return { readFirst: false };
    const head = Object.fromEntries(HEAD.filter((name) => name in this.#last).map((name) => [name, this.#last[name]]));
    const usage = this.#usageAsked && "usage" in this.#last && { usage: null };
    const before = [...this.#open]
      .sort(([one], [other]) => one - other)
      .map(([index, finish_reason]) => ({
        ...head,
        ...usage,
        choices: [{ index, delta: {}, logprobs: null, finish_reason }],
      }));
    this.#open.clear();
    return { before, readFirst: true };
  }
}

function calledIn(delta: Record<string, unknown> | undefined): Reason | undefined {
  if (Array.isArray(delta?.tool_calls) && delta.tool_calls.length > 0) return "tool_calls";
  return asObject(delta?.function_call) ? "function_call" : undefined;
}
