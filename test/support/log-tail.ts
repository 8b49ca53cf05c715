/** The log of a process as it grows. What was printed before is not read, and each line only once. */
import { closeSync, fstatSync, openSync, readSync } from "node:fs";

export class LogTail {
  readonly #file: number;
  #offset: number;
  #rest = "";
  readonly #lines: string[] = [];

  constructor(path: string) {
    this.#file = openSync(path, "r");
    this.#offset = fstatSync(this.#file).size;
  }

  /** All whole lines since it was opened. */
  lines(): readonly string[] {
    const size = fstatSync(this.#file).size;
    const chunk = Buffer.alloc(size - this.#offset);
    const bytes = readSync(this.#file, chunk, 0, chunk.length, this.#offset);
    this.#offset += bytes;
    const [...whole] = (this.#rest + chunk.toString("utf8", 0, bytes)).split("\n");
    this.#rest = whole.pop() ?? "";
    this.#lines.push(...whole);
    return this.#lines;
  }

  close(): void {
    closeSync(this.#file);
  }
}
