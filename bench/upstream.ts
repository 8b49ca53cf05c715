/**
 * The upstream of both subjects, a process of its own: chat completions as JSON and as streams, and responses as
 * streams, by what its prompt says. Streams send one HTTP chunk a frame, either as fast as they are taken or paced; a
 * paced frame says when it was due and when it was sent.
 */
import { createServer, type Socket } from "node:net";
import { chunkOf, clockMs, LAST_CHUNK, MessageParser } from "./http1.ts";
import { responseEvents } from "./response-events.ts";
import { MANNERS, type Manner, SCENARIO, type Scenario } from "./scenario.ts";

const HEAD = { id: "chatcmpl-bench", created: 1_700_000_000, model: "bench-1" };
const WORD = " nineteen characters";

const JSON_BODY = JSON.stringify({
  ...HEAD,
  object: "chat.completion",
  choices: [
    { index: 0, message: { role: "assistant", content: WORD.repeat(20), refusal: null }, finish_reason: "stop" },
  ],
  usage: { prompt_tokens: 25, completion_tokens: 100, total_tokens: 125 },
});
const JSON_ANSWER = Buffer.from(
  `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(JSON_BODY)}\r\n\r\n${JSON_BODY}`,
);
const STREAM_HEAD = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

/** With `include_usage` every chunk but the last carries `"usage":null`. */
function frame(withUsage: boolean, paced?: { dueMs: number }): string {
  const event = JSON.stringify({
    ...HEAD,
    object: "chat.completion.chunk",
    choices: [{ index: 0, delta: { content: WORD }, finish_reason: null }],
    ...(withUsage && { usage: null }),
    ...(paced && { due_ms: Number(paced.dueMs.toFixed(3)), sent_ms: Number(clockMs().toFixed(3)) }),
  });
  return chunkOf(`data: ${event}\n\n`);
}

function lastFrames(frames: number, withUsage: boolean): string {
  const usage = { prompt_tokens: 25, completion_tokens: frames, total_tokens: 25 + frames };
  const event = JSON.stringify({ ...HEAD, object: "chat.completion.chunk", choices: [], usage });
  const choices = [{ index: 0, delta: {}, finish_reason: "stop" }];
  const finish = JSON.stringify({
    ...HEAD,
    object: "chat.completion.chunk",
    choices,
    ...(withUsage && { usage: null }),
  });
  return (
    chunkOf(`data: ${finish}\n\n`) +
    (withUsage ? chunkOf(`data: ${event}\n\n`) : "") +
    chunkOf("data: [DONE]\n\n") +
    LAST_CHUNK
  );
}

const unpaced = new Map<string, Buffer>();

function responseStream(frames: number, manner: Manner): Buffer {
  const name = `${frames} ${manner}`;
  const known = unpaced.get(name);
  if (known) return known;
  const events = responseEvents(manner, frames, WORD).map((event) => chunkOf(`data: ${JSON.stringify(event)}\n\n`));
  const made = Buffer.from(STREAM_HEAD + events.join("") + LAST_CHUNK);
  unpaced.set(name, made);
  return made;
}

function unpacedStream(frames: number, withUsage: boolean): Buffer {
  const name = `${frames} ${withUsage}`;
  const known = unpaced.get(name);
  if (known) return known;
  const made = Buffer.from(STREAM_HEAD + frame(withUsage).repeat(frames) + lastFrames(frames, withUsage));
  unpaced.set(name, made);
  return made;
}

function sendPaced(socket: Socket, { frames, paceMs }: Scenario, withUsage: boolean): void {
  const startMs = clockMs();
  let sent = 0;
  socket.write(STREAM_HEAD);
  const next = () => {
    if (socket.destroyed) return;
    const dueMs = startMs + sent * paceMs;
    sent++;
    if (sent === frames) {
      socket.write(frame(withUsage, { dueMs }) + lastFrames(frames, withUsage));
      return;
    }
    socket.write(frame(withUsage, { dueMs }));
    setTimeout(next, Math.max(0, startMs + sent * paceMs - clockMs()));
  };
  next();
}

function answer(socket: Socket, body: string): void {
  const [, frames, paceMs, said] = SCENARIO.exec(body) ?? [];
  const manner = MANNERS.find((known) => known === said);
  const scenario: Scenario = { frames: Number(frames ?? 0), paceMs: Number(paceMs ?? 0) };
  const withUsage = body.includes('"include_usage":true');
  if (manner) socket.write(responseStream(scenario.frames, manner));
  else if (scenario.frames === 0) socket.write(JSON_ANSWER);
  else if (scenario.paceMs === 0) socket.write(unpacedStream(scenario.frames, withUsage));
  else sendPaced(socket, scenario, withUsage);
}

const server = createServer({ noDelay: true }, (socket) => {
  let body = "";
  const parser = new MessageParser({
    head: () => {
      body = "";
    },
    body: (piece) => {
      body += piece.toString("latin1");
    },
    end: () => answer(socket, body),
  });
  socket.on("data", (chunk: Buffer) => parser.push(chunk));
  socket.on("error", () => socket.destroy());
});
server.listen({ port: 0, host: "127.0.0.1", backlog: 2048 }, () => {
  const address = server.address();
  process.send?.({ port: typeof address === "object" && address ? address.port : 0 });
});
// Nobody is left to serve once the harness is gone.
process.on("disconnect", () => process.exit(0));
