/** What the gateway's own count takes for the input of a call without parts and without a conversation before it. */
import type { Asked } from "./service.ts";

const bytesOf = (value: unknown): number => Buffer.byteLength(JSON.stringify(value));

export function ownInputTokens({ path, init }: Asked): number {
  const { model: _model, max_tokens: _cap, max_output_tokens: _other, ...sent } = JSON.parse(String(init.body));
  const tokens = Math.ceil(bytesOf(sent) / 4);
  if (path === "/v1/responses" && typeof sent.input === "string") return tokens + 7;
  if (path !== "/v1/rerank") return tokens;
  const pairs: number = sent.documents.length;
  return tokens + (pairs - 1) * Math.ceil(Buffer.byteLength(sent.query) / 4) + pairs * 4;
}
