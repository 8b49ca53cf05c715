/**
 * Relays a large JSON answer: first the part that was read, then the rest as it comes, both without the members that a
 * tenant must not see. A cut or malformed answer never ends cleanly, and what was seen of it is charged.
 */
import type { CallOutcome } from "../../core/account/hold.ts";
import type { PassingDocument } from "../http/read-document.ts";
import type { Ports } from "../ports.ts";
import type { Passage } from "./client-stream.ts";
import { type Client, type ClientSide, Outlet } from "./outlet.ts";
import { relay } from "./relay.ts";

export class DocumentPassage implements Passage {
  readonly #document: PassingDocument;
  readonly #outlet: Outlet;
  #understood: boolean;
  /** Only the end of the body shows that all of it was there. */
  readonly complete = false;
  readonly delivered = false;
  readonly unread = null;
  readonly usesUp = true;

  constructor(document: PassingDocument, side: ClientSide, client: Client) {
    this.#document = document;
    this.#outlet = new Outlet(side, client);
    this.#understood = document.understood;
  }

  async open(): Promise<void> {
    await this.#write(this.#document.head);
    this.#document.place?.leave();
  }

  async take(chunk: Uint8Array): Promise<boolean> {
    const passes = this.#document.filter.push(chunk);
    if (!passes) return false;
    await this.#write(passes);
    return true;
  }

  async finish(): Promise<boolean> {
    return this.#document.filter.whole && (this.#understood || this.#understand());
  }

  outcome(whole: boolean): CallOutcome {
    this.#document.place?.leave();
    if (!this.#understood) this.#understand();
    if (this.#outlet.gone) return "client_gone";
    return whole ? "completed" : "stream_broken";
  }

  async close(whole: boolean, withinMs: number): Promise<void> {
    if (whole && !this.#outlet.gone) return this.#outlet.end(withinMs);
    return this.#outlet.abort(null, withinMs);
  }

  drop(): void {
    this.#outlet.drop();
  }

  #understand(): boolean {
    const { reader, filter } = this.#document;
    this.#understood = true;
    return reader.read(filter.members, filter);
  }

  async #write(pieces: readonly Uint8Array[]): Promise<void> {
    for (const piece of pieces) await this.#outlet.write(piece);
  }
}

/** Records the id that the answer hands out. If that fails, the answer does not pass. */
export async function recordFirst(document: PassingDocument, record: (id: string) => Promise<void>): Promise<void> {
  if (document.created === null) return;
  try {
    await record(document.created);
  } catch (error) {
    document.place?.leave();
    await document.answer.response.body?.cancel().catch(() => undefined);
    throw error;
  }
}

/** Relays the answer of a free call. Reading stops when its client has left. */
export function passFree(
  document: PassingDocument,
  request: AbortSignal,
  ports: Ports,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  const leaving = new AbortController();
  const client: Client = {
    get gone() {
      return leaving.signal.aborted;
    },
    leave: () => leaving.abort(),
    whenLeft: (act) => leaving.signal.addEventListener("abort", act, { once: true }),
  };
  request.addEventListener("abort", client.leave, { once: true });
  const passage = (side: ClientSide) => new DocumentPassage(document, side, client);
  const { body, closed } = relay(
    { answer: document.answer, unreadAllowed: false },
    passage,
    client,
    leaving.signal,
    ports,
  );
  ports.waitUntil(closed);
  return body as ReadableStream<Uint8Array<ArrayBuffer>>;
}
