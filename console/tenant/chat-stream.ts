/** One streamed chat: its text as it comes, when its first byte came, and its request id. */
import { notAnswered, Refused, send } from "../kit/api.ts";

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
  let [rest, first, whole] = ["", true, false];
  const next = () =>
    reader.read().catch((error: unknown) => {
      throw notAnswered(error, signal, BROKEN);
    });
  for (let part = await next(); !part.done; part = await next()) {
    if (first) told.firstByte(performance.now() - begun);
    first = false;
    const events = (rest + part.value).split("\n\n");
    rest = events.pop() ?? "";
    for (const event of events) whole = read(event, told) || whole;
  }
  if (!whole) throw new Error(BROKEN);
}
const BROKEN = "The stream broke off. What had come by then may be charged. Send it again.";

/** True at the event that ends a stream. */
function read(event: string, told: Told): boolean {
  const data = event.replace(/^data: ?/, "");
  if (!event.startsWith("data:")) return false;
  if (data === "[DONE]") return true;
  const { choices, error } = frameOf(data);
  if (error) throw new Error(error.message ?? BROKEN);
  const piece = choices?.[0]?.delta?.content;
  if (piece) told.text(piece);
  return false;
}

function frameOf(data: string): Frame {
  try {
    return JSON.parse(data) as Frame;
  } catch {
    throw new Error(BROKEN);
  }
}
