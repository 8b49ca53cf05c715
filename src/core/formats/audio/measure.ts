/**
 * Measures the length of audio while it passes, in any chunks and constant memory: from frames, packets or bytes, never
 * from a length that a header claims. The first bytes decide the format.
 */
import { isFlac, walkFlac } from "./flac.ts";
import { isMp3, walkMp3 } from "./mp3.ts";
import { isOgg, walkOgg } from "./ogg.ts";
import { isWav, walkWav } from "./wav.ts";
import { AudioWindow, type Tally, type Walk } from "./window.ts";

const SNIFFED_BYTES = 12;

export class AudioMeasure {
  readonly #window = new AudioWindow();
  readonly #tally: Tally = { ms: 0, unreadable: false };
  readonly #walk: Walk;
  #over = false;

  /** `contentType` is used only if the first bytes do not decide. */
  constructor(contentType = "") {
    this.#walk = walk(this.#window, this.#tally, contentType);
  }

  push(chunk: Uint8Array): void {
    if (this.#over || chunk.length === 0) return;
    this.#window.add(chunk);
    this.#over = this.#walk.next().done === true;
    this.#window.release();
  }

  /** Whole ms so far; null if it is no audio that can be measured. */
  get ms(): number | null {
    return this.#tally.unreadable ? null : Math.round(this.#tally.ms);
  }
}

function* walk(window: AudioWindow, tally: Tally, contentType: string): Walk {
  while (!window.has(SNIFFED_BYTES)) yield;
  if (isWav(window)) yield* walkWav(window, tally);
  else if (isOgg(window)) yield* walkOgg(window, tally);
  else if (isFlac(window)) yield* walkFlac(window, tally);
  else if (isMp3(window) || /^audio\/(mpeg|mp3)/i.test(contentType)) yield* walkMp3(window, tally);
  else tally.unreadable = true;
}
