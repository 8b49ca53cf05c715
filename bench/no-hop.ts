/**
 * Takes miniflare's outbound Workers out of the runtime's configuration: locally each `fetch` of a Worker passes
 * through one more Worker, which production does not have and which costs as much as the rest of a bare call.
 *
 * Miniflare has no setting for it, so the serialized configuration (Cap'n Proto) is changed on its way to workerd:
 * where a Worker names `outbound:0` as its way out, it then names the network itself.
 */
import { Runtime } from "miniflare";

const NETWORK = "internet";
const WORD = 8;

interface Updates {
  updateConfig(config: Buffer, ...rest: unknown[]): Promise<unknown>;
}

/** Holds for every Miniflare that this process starts from now on, for its Workers with these places. */
export function takeHopOut(workers: number): void {
  const prototype = Runtime.prototype as unknown as Updates;
  const update = prototype.updateConfig;
  prototype.updateConfig = function (this: Updates, config: Buffer, ...rest: unknown[]) {
    for (let worker = 0; worker < workers; worker++) renameWayOut(config, `outbound:${worker}`);
    return update.call(this, config, ...rest);
  };
}

/**
 * Two pointers lead to that name: the outbound Worker's own, which is in the list of services that comes first, and
 * that of the Worker whose way out it is.
 */
function renameWayOut(config: Buffer, name: string): void {
  const pointers: { at: number; text: number }[] = [];
  for (let at = 0; at + WORD <= config.length; at += WORD) {
    const text = textAt(config, at, name.length);
    if (text !== null && config.toString("latin1", text, text + name.length) === name) pointers.push({ at, text });
  }
  const [, wayOut] = pointers;
  if (!wayOut || pointers.length !== 2) throw new Error(`${name} is not one Worker's way out: this miniflare differs`);
  config.write(NETWORK.padEnd(name.length, "\0"), wayOut.text, "latin1");
  config.writeUInt32LE(lengthWord(NETWORK.length), wayOut.at + 4);
}

const LIST_POINTER = 1;
const LIST_OF_BYTES = 2;

/** A text ends in a zero byte that counts. */
const lengthWord = (characters: number): number => ((characters + 1) * 8 + LIST_OF_BYTES) >>> 0;

/** Where the text of that length begins that the word at this place points to; null if it points to none. */
function textAt(config: Buffer, at: number, characters: number): number | null {
  const low = config.readInt32LE(at);
  if ((low & 3) !== LIST_POINTER || config.readUInt32LE(at + 4) !== lengthWord(characters)) return null;
  return at + WORD + (low >> 2) * WORD;
}
