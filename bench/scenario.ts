/** What the upstream is to answer, said in the request's body; unknown fields pass the gateway as they are. */
export interface Scenario {
  /** Frames of a stream; 0: a JSON answer. */
  readonly frames: number;
  /** Milliseconds between two frames; 0: as fast as they are taken. */
  readonly paceMs: number;
}

export const SCENARIO = /"bench":"(\d+) (\d+)"/;

export type Usage = "asked" | "unasked";

/** The alias under which the gateway knows the upstream's model; the bare Worker passes it as it is. */
export const MODEL = "bench";

/** The body of a chat call. */
export function chatBody({ frames, paceMs }: Scenario, usage: Usage = "asked"): string {
  return JSON.stringify({
    model: MODEL,
    messages: [
      { role: "system", content: "You are a helpful assistant." },
      { role: "user", content: "Say something of about a hundred tokens on the weather in the mountains." },
    ],
    max_tokens: Math.max(256, frames + 1),
    temperature: 0.7,
    bench: `${frames} ${paceMs}`,
    ...(frames > 0 && { stream: true }),
    ...(frames > 0 && usage === "asked" && { stream_options: { include_usage: true } }),
  });
}
