/**
 * Passes a streamed answer to the client as it comes, and reads its usage in passing.
 *
 * Promises: what is read reaches the client before the next is read; a stream that is cut, stalled or garbled ends in an
 * aborted body, never as if it were whole; a client that takes nothing for the upstream's `idleMs` is let go; `ended`
 * resolves once, whatever happens. How events and plain bytes pass is
 * `client-stream.ts`'s business.
 *
 * Each read and each write of a loop enters the isolate anew, which is most of what a frame costs. Where nothing has to be
 * taken out, the runtime's own pipe carries the stream once it has begun as text does, and it is read behind the pipe
 * (`native-pipe.ts`): the same promises, but that an event that breaks a stream is noticed a moment after it passed.
 */
import type { CallOutcome } from "../../core/account/hold.ts";
import { pieceReader } from "../http/piece-reader.ts";
import { Watchdog } from "../http/upstream-body.ts";
import type { Ports, UpstreamAnswer } from "../ports.ts";
import { Afterword } from "./afterword.ts";
import type { Passage } from "./client-stream.ts";
import { Opening, passUnread } from "./native-pipe.ts";
import type { Client } from "./outlet.ts";

export interface Relay {
  /** The client's side of the stream. */
  readonly body: ReadableStream<Uint8Array>;
  /** As soon as the reading is final: when a whole stream was delivered, or when it broke. */
  readonly ended: Promise<RelayEnd>;
  /** When nothing of it is open any more. */
  readonly closed: Promise<void>;
}
interface RelayEnd {
  readonly outcome: CallOutcome;
  readonly firstByteAtMs: number | null;
  /** An event that breaks the stream had passed before it was read. */
  readonly passedBroken: boolean;
}

export interface Relayed {
  readonly answer: UpstreamAnswer & { kind: "answer" };
  /** Whether its events may pass before they are read. */
  readonly unreadAllowed: boolean;
}

/** `passageTo`: makes the way to a client from its side of the stream. */
export function relay(
  relayed: Relayed,
  passageTo: (side: WritableStream<Uint8Array>) => Passage,
  client: Client,
  signal: AbortSignal,
  ports: Ports,
): Relay {
  const { readable, writable } = newPipe();
  const ended = Promise.withResolvers<RelayEnd>();
  const closed = pump(relayed, passageTo(writable), client, signal, ended.resolve, ports);
  return { body: readable, ended: ended.promise, closed };
}

/** How long a stream that was delivered whole may go on. */
const AFTERWORD_MS = 5_000;
/** How long the client of a call that is let go has to take what it was given last: the hold has not much longer. */
const LAST_TAKEN_WITHIN_MS = 250;

const Native = (globalThis as { IdentityTransformStream?: new () => Pipe }).IdentityTransformStream;

/**
 * A write ends when its bytes were taken, and the readable end keeps the request's context alive to the last byte.
 * Cloudflare's own pipe does that at a fifth of the cost of the standard one.
 */
function newPipe(): Pipe {
  if (Native) return new Native();
  return new TransformStream<Uint8Array, Uint8Array>(undefined, { highWaterMark: 0 }, { highWaterMark: 0 });
}
interface Pipe {
  readonly readable: ReadableStream<Uint8Array>;
  readonly writable: WritableStream<Uint8Array>;
}

async function pump(
  { answer, unreadAllowed }: Relayed,
  passage: Passage,
  client: Client,
  signal: AbortSignal,
  end: (end: RelayEnd) => void,
  ports: Ports,
): Promise<void> {
  const body = answer.response.body as ReadableStream<Uint8Array>;
  const source = passage.usesUp && Native ? pieceReader(body) : body.getReader();
  let letGo = (): void => void source.cancel().catch(() => undefined);
  const cancel = () => letGo();
  let cancelled = false;
  const silent = () => {
    cancelled = true;
    cancel();
  };
  const watchdog = new Watchdog(answer, ports, silent, () => passage.drop());
  let dropping: ReturnType<typeof setTimeout> | null = null;
  const letGoNow = () => {
    cancel();
    // A write that waits for a client which takes nothing would keep the call from its end. One that is still there may
    // be slow: the call ends without it, and the watchdog lets it go.
    dropping = setTimeout(() => {
      if (client.gone) passage.drop();
      else end({ outcome: passage.outcome(false), firstByteAtMs, passedBroken: false });
    }, LAST_TAKEN_WITHIN_MS);
  };
  signal.addEventListener("abort", letGoNow);
  let firstByteAtMs: number | null = null;
  const delivered = () => end({ outcome: "completed", firstByteAtMs, passedBroken: false });
  const unreadPassage = unreadAllowed && Native ? passage.unread : null;
  const opening = new Opening();
  const afterword = new Afterword();
  let over = false;
  let sound = true;
  let passedBroken = false;
  try {
    watchdog.given(ports.now());
    await passage.open?.();
    while (sound) {
      watchdog.waiting(ports.now());
      const { done, value } = await source.read();
      if (done || !value) break;
      watchdog.given(ports.now());
      firstByteAtMs ??= ports.now();
      opening.add(value);
      sound = await passage.take(value);
      if (passage.delivered) {
        delivered();
        over = afterword.goesOn(value.byteLength, ports.now(), AFTERWORD_MS);
        if (over) break;
      }
      // Nobody waits for the upstream to close the connection.
      else if (client.gone && passage.complete) break;
      else if (sound && unreadPassage && opening.isText && !signal.aborted && !cancelled) {
        await unreadPassage.passRest();
        source.releaseLock();
        const unread = passUnread(body, unreadPassage, client, watchdog, delivered, answer.idleMs, ports);
        letGo = unread.cancel;
        const unreadEnd = await unread.ended;
        sound = unreadEnd === "sound";
        passedBroken = unreadEnd === "broken";
        break;
      }
    }
  } catch {
    sound = false;
  } finally {
    watchdog.stop();
    if (dropping !== null) clearTimeout(dropping);
    signal.removeEventListener("abort", letGoNow);
  }
  if (!sound || over || client.gone) cancel();
  // A cancelled body ends as if it had come to its end: what came is not the whole.
  const whole = over || (sound && !cancelled && !signal.aborted && (await passage.finish()));
  end({ outcome: passage.outcome(whole), firstByteAtMs, passedBroken });
  await passage.close(whole, answer.idleMs, firstByteAtMs === null ? 0 : ports.now() - firstByteAtMs);
}
