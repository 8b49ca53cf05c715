/** One streamed chat: its text as it comes, when its first byte came, and its request id. */
import { Refused, send } from "../kit/api.ts";

export interface Chat {
  readonly model: string;
  readonly messages: readonly { readonly role: string; readonly content: string }[];
  readonly max_tokens?: number;
}
export interface Told {
  text(piece: string): void;
  firstByte(ms: number): void;
  id(callId: string): void;
}
interface Frame {
  readonly choices?: readonly { readonly delta?: { readonly content?: string | null } }[];
  readonly error?: { readonly message?: string };
}

export async function chat(body: Chat, told: Told, signal: AbortSignal): Promise<void> {
  const begun = performance.now();
  const response = await send(
    "POST",
    "/v1/chat/completions",
    { ...body, stream: true, stream_options: { include_usage: true } },
    signal,
  );
  told.id(response.headers.get("x-request-id") ?? "");
  if (!response.ok) throw new Refused(response.status, await response.json().catch(() => null));
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  if (!reader) return;
  let [rest, first] = ["", true];
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    if (first) told.firstByte(performance.now() - begun);
    first = false;
    const events = (rest + part.value).split("\n\n");
    rest = events.pop() ?? "";
    for (const event of events) read(event, told);
  }
}

function read(event: string, told: Told): void {
  const data = event.replace(/^data: ?/, "");
  if (!event.startsWith("data:") || data === "[DONE]") return;
  const { choices, error } = JSON.parse(data) as Frame;
  if (error) throw new Error(error.message ?? "The stream broke off.");
  const piece = choices?.[0]?.delta?.content;
  if (piece) told.text(piece);
}
