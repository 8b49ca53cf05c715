/** A model server on a pod: chat completions as OpenAI has them, JSON or events. It repeats the last message. */
import { z } from "zod";
import { COMMON, countTokens, tokensOf } from "../chat/tokens.ts";
import { check } from "../check.ts";
import { refusalBody } from "../refusal.ts";

const Chat = z.object({
  model: z.string().default("pod"),
  messages: z.array(z.object({ role: z.string(), content: z.string() })).min(1),
  stream: z.boolean().default(false),
});

export async function podChat(request: Request, pod: string): Promise<Response> {
  const read = check(await request.json().catch(() => undefined), Chat);
  if (!read.ok) return Response.json(refusalBody(read.refusal, "openai"), { status: 400 });
  const { model, messages, stream } = read.value;
  const text = `[${pod}] ${messages.at(-1)?.content}`;
  const pieces = tokensOf(text, COMMON);
  const prompt = messages.reduce((sum, { content }) => sum + countTokens(content, COMMON), 0);
  const usage = { prompt_tokens: prompt, completion_tokens: pieces.length, total_tokens: prompt + pieces.length };
  const head = { id: `chatcmpl-${pod}`, created: Math.floor(Date.now() / 1000), model };
  if (!stream) {
    const message = { role: "assistant", content: text };
    const choices = [{ index: 0, message, finish_reason: "stop" }];
    return Response.json({ ...head, object: "chat.completion", choices, usage });
  }
  const frame = (delta: object, finish: string | null) => ({
    ...head,
    object: "chat.completion.chunk",
    choices: [{ index: 0, delta, finish_reason: finish }],
  });
  const frames = [...pieces.map((content) => frame({ role: "assistant", content }, null)), frame({}, "stop")];
  const body = [...frames.map((one) => JSON.stringify(one)), "[DONE]"].map((data) => `data: ${data}\n\n`).join("");
  return new Response(body, { headers: { "content-type": "text/event-stream" } });
}
