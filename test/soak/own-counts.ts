/**
 * Compares own counts with what was executed: input is never more than 5 % below, and a client that received everything
 * is charged exactly. Output that was sent towards a client that had left, and did not pass the gateway, is not
 * charged; it is reported as a sum.
 */
import type { JoinedEvent } from "../support/joined-books.ts";
import type { Execution } from "../support/sandbox.ts";

const LEAST_INPUT_SHARE = 0.95;

interface OwnCounts {
  readonly lines: readonly string[];
  readonly wrong: readonly string[];
}

export function checkOwnCounts(
  events: readonly JoinedEvent[],
  executions: readonly Execution[],
  leftAfterOutput: ReadonlySet<string>,
): OwnCounts {
  const executed = Map.groupBy(executions, ({ request_id }) => request_id);
  const wrong: string[] = [];
  const sums = new Map<string, { calls: number; charged: number; used: number; output: number; made: number }>();
  for (const event of events) {
    const { event_id, source, outcome } = event;
    // An expired hold is charged what the last renewal reported; the table of losses covers it.
    if (outcome === "expired") continue;
    if (leftAfterOutput.has(event_id) && source !== "exact") {
      wrong.push(`${event_id} was left after its last word and is charged by own count: ${JSON.stringify(event)}`);
    }
    const [only, second] = executed.get(event_id) ?? [];
    const used = only?.usage?.input_tokens;
    if (source !== "own_count" || second || used === undefined) continue;
    if (event.input_tokens < used * LEAST_INPUT_SHARE) {
      wrong.push(`${event_id} is charged ${event.input_tokens} of ${used} input tokens: ${JSON.stringify(event)}`);
    }
    const name = `${event.endpoint}, ${outcome}`;
    const sum = sums.get(name) ?? { calls: 0, charged: 0, used: 0, output: 0, made: 0 };
    sum.calls += 1;
    sum.charged += event.input_tokens;
    sum.used += used;
    sum.output += event.output_tokens;
    sum.made += only?.usage?.output_tokens ?? 0;
    sums.set(name, sum);
  }
  const lines = [...sums].map(
    ([name, { calls, charged, used, output, made }]) =>
      `own count      ${name}: ${calls} calls, input ${charged} of ${used} tokens, output ${output} of ${made}`,
  );
  return { lines, wrong };
}
