/**
 * Relays a streamed answer to the client and reads its usage on the way. The folder `stream/` has all that happens
 * between the first byte and the end of a call; it must not know endpoints, prices or how a hold is settled.
 *
 * Promises: what was read reaches the client before the next read; a stream that is cut, stalled or garbled ends in an
 * aborted body, never in a clean end; a client that takes nothing for the upstream's `idleMs` is cut off; `ended`
 * resolves once, whatever happens. `client-stream.ts` passes events and plain bytes.
 *
 * Each read and write of a loop enters the isolate anew, which is most of a frame's cost. Frames that come quickly are
 * read and passed together (`batched-source.ts`). A slower stream, if nothing has to be removed, is carried by the
 * runtime's own pipe once it has begun as text, and the gateway reads it behind the pipe (`native-pipe.ts`). The
 * promises are the same, except that a broken event is noticed shortly after it passed.
 */
import type { CallOutcome } from "../../core/account/hold.ts";
import { pieceReader } from "../http/piece-reader.ts";
import { Watchdog } from "../http/upstream-body.ts";
import type { Ports, UpstreamAnswer } from "../ports.ts";
import { Afterword } from "./afterword.ts";
import { batchedSource, nativePipe, type Pipe } from "./batched-source.ts";
import type { Passage } from "./client-stream.ts";
import { Opening, passUnread } from "./native-pipe.ts";
import type { Client } from "./outlet.ts";

export interface Relay {
  /** The client's side of the stream. */
  readonly body: ReadableStream<Uint8Array>;
  /** Resolves when the reading is final: a whole stream was delivered, or it broke. */
  readonly ended: Promise<RelayEnd>;
  /** Resolves when nothing of it is open any more. */
  readonly closed: Promise<void>;
}
interface RelayEnd {
  readonly outcome: CallOutcome;
  /** Whether all of the answer was read, whoever took it. */
  readonly whole: boolean;
  readonly firstByteAtMs: number | null;
  /** An event that breaks the stream passed before it was read. */
  readonly passedBroken: boolean;
}

export interface Relayed {
  readonly answer: UpstreamAnswer & { kind: "answer" };
  /** Whether its events may pass before they are read. */
  readonly unreadAllowed: boolean;
}

/** `passageTo`: makes the passage to a client from its side of the stream. */
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

/** How long a stream may go on after it was delivered whole, ms. */
const AFTERWORD_MS = 5_000;
/** How long the client of a cancelled call has to take the last bytes, ms: the hold ends soon after. */
const LAST_TAKEN_WITHIN_MS = 250;

/**
 * A write ends when its bytes were taken, and the readable end keeps the request's context alive to the last byte.
 * Cloudflare's own pipe does that at a fifth of the cost of the standard one.
 */
function newPipe(): Pipe {
  const Native = nativePipe();
  if (Native) return new Native();
  return new TransformStream<Uint8Array, Uint8Array>(undefined, { highWaterMark: 0 }, { highWaterMark: 0 });
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
  const batches = passage.usesUp ? null : batchedSource(body, () => ports.now());
  const source = batches ?? (passage.usesUp && nativePipe() ? pieceReader(body) : body.getReader());
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
    // A write to a client that takes nothing would block the call's end. A client that is still there may just be slow:
    // the call ends without it, and the watchdog cuts it off.
    dropping = setTimeout(() => {
      if (client.gone) passage.drop();
      else end({ outcome: passage.outcome(false), whole: false, firstByteAtMs, passedBroken: false });
    }, LAST_TAKEN_WITHIN_MS);
  };
  signal.addEventListener("abort", letGoNow);
  let firstByteAtMs: number | null = null;
  const delivered = () => end({ outcome: "completed", whole: true, firstByteAtMs, passedBroken: false });
  const unreadPassage = unreadAllowed && nativePipe() ? passage.unread : null;
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
      // Don't wait for the upstream to close the connection.
      else if (client.gone && passage.complete) break;
      else if (sound && unreadPassage && !batches?.batched && opening.isText && !signal.aborted && !cancelled) {
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
  // A cancelled body ends like a complete one, so this is not the whole.
  const whole = over || (sound && !cancelled && !signal.aborted && (await passage.finish()));
  end({ outcome: passage.outcome(whole), whole, firstByteAtMs, passedBroken });
  await passage.close(whole, answer.idleMs, firstByteAtMs === null ? 0 : ports.now() - firstByteAtMs);
}
