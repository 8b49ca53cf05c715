/** What the upstream is to answer, said in the prompt: everything between passes that as it is. */
export interface Scenario {
  /** Frames of a stream; 0: a JSON answer. */
  readonly frames: number;
  /** Milliseconds between two frames; 0: as fast as they are taken. */
  readonly paceMs: number;
  /** Set for a stream of a response, always as fast as it is taken; otherwise it is chat. */
  readonly manner?: Manner;
}

/** What an upstream says of a response in its stream (`response-events.ts`). */
export const MANNERS = ["whole", "placed", "least"] as const;
export type Manner = (typeof MANNERS)[number];

export const SCENARIO = /\[bench (\d+) (\d+) ?(\w*)\]/;

export type Usage = "asked" | "unasked";

/** The alias under which the gateway knows the upstream's model; the bare Worker passes it as it is. */
export const MODEL = "bench";

const SYSTEM = "You are a helpful assistant.";
const QUESTION = "Say something of about a hundred tokens on the weather in the mountains.";

/** The path and the body of a call. */
export function callOf(scenario: Scenario, usage: Usage = "asked"): { path: string; body: string } {
  const { manner } = scenario;
  if (!manner) return { path: "/v1/chat/completions", body: chatBody(scenario, usage) };
  return { path: "/v1/responses", body: responsesBody(scenario.frames, manner) };
}

function responsesBody(frames: number, manner: Manner): string {
  return JSON.stringify({
    model: MODEL,
    instructions: SYSTEM,
    input: `${QUESTION} [bench ${frames} 0 ${manner}]`,
    max_output_tokens: frames + 1,
    stream: true,
  });
}

function chatBody({ frames, paceMs }: Scenario, usage: Usage): string {
  return JSON.stringify({
    model: MODEL,
    messages: [
      { role: "system", content: SYSTEM },
      { role: "user", content: `${QUESTION} [bench ${frames} ${paceMs}]` },
    ],
    max_tokens: Math.max(256, frames + 1),
    temperature: 0.7,
    ...(frames > 0 && { stream: true }),
    ...(frames > 0 && usage === "asked" && { stream_options: { include_usage: true } }),
  });
}
