/** Makes a part's bytes from its lines, block by block: only compressed blocks stay in memory. */
import {
  BLOCK_LINES,
  footerText,
  hashOf,
  type PartLine,
  type PartPlace,
  type PartRecord,
} from "../../core/archive/part.ts";
import { joinBytes } from "../../core/formats/bytes.ts";
import { gzip, sha256 } from "./bucket.ts";

export interface WrittenPart {
  /** Without an `etag` yet. */
  readonly record: PartRecord;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

export class PartWriter {
  readonly #place: PartPlace;
  readonly #blocks: Uint8Array[] = [];
  readonly #hashes: number[] = [];
  #nanoUsd = 0;
  #bytes = 0;

  constructor(place: PartPlace) {
    this.#place = place;
  }

  get lines(): number {
    return this.#hashes.length;
  }
  get bytes(): number {
    return this.#bytes;
  }

  /** One block: `BLOCK_LINES` lines, fewer only at the part's end. */
  async add(lines: readonly PartLine[]): Promise<void> {
    if (this.lines % BLOCK_LINES !== 0) throw new Error("a block follows one that is not full");
    const block = await gzip(lines.map(({ text }) => `${text}\n`).join(""));
    for (const { callId, nanoUsd } of lines) {
      this.#hashes.push(hashOf(callId));
      this.#nanoUsd += nanoUsd;
    }
    this.#blocks.push(block);
    this.#bytes += block.length;
  }

  async finish(): Promise<WrittenPart> {
    const { series, account, hourMs, n } = this.#place;
    const { lines } = this;
    const blocks = this.#blocks.map(({ length }) => length);
    const told = { version: 1, series, account, hour_ms: hourMs, n, lines, nano_usd: this.#nanoUsd } as const;
    const footer = await gzip(footerText({ ...told, blocks, calls: this.#hashes }));
    const bytes = joinBytes([...this.#blocks, footer]);
    const record = {
      ...this.#place,
      lines,
      nanoUsd: this.#nanoUsd,
      bytes: bytes.length,
      footerBytes: footer.length,
      blocks,
      sha256: await sha256(bytes),
      etag: "",
    };
    return { record, bytes };
  }
}
