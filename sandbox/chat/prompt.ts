/** Counts a chat completion's prompt: everything that the chat template writes. Pure. */
import type { ChatRequest, Message } from "./request.ts";
import { type MessageWeight, promptTokens, tokenizerOf } from "./tokens.ts";

/** Tokens that the engine reads of a request. */
export const inputTokensOf = (body: ChatRequest): number =>
  promptTokens(
    body.messages.map(weigh),
    body.tools?.length ? [JSON.stringify(body.tools)] : [],
    tokenizerOf(body.model),
  );

function weigh({ content, tool_calls, function_call, name, tool_call_id }: Message): MessageWeight {
  const calls = [tool_calls, function_call].flatMap((made) => (made ? [JSON.stringify(made)] : []));
  for (const named of [name, tool_call_id]) if (typeof named === "string") calls.push(named);
  if (content === null || content === undefined) return { texts: calls, images: 0 };
  if (typeof content === "string") return { texts: [content, ...calls], images: 0 };
  const texts = content.flatMap((part) => (part.type === "text" ? [part.text] : []));
  return { texts: [...texts, ...calls], images: content.length - texts.length };
}
