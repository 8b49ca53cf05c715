/**
 * A bounded map whose values expire, for what an isolate caches briefly. When it is full, the least recently used entry
 * is dropped.
 */
export class RecentMap<K, V> {
  readonly #most: number;
  readonly #entries = new Map<K, { readonly value: V; readonly untilMs: number }>();

  constructor(most: number) {
    this.#most = most;
  }

  get(key: K, nowMs: number): V | undefined {
    const entry = this.#entries.get(key);
    if (!entry) return undefined;
    this.#entries.delete(key);
    if (entry.untilMs <= nowMs) return undefined;
    this.#entries.set(key, entry);
    return entry.value;
  }

  set(key: K, value: V, untilMs: number): void {
    this.#entries.delete(key);
    this.#entries.set(key, { value, untilMs });
    if (this.#entries.size <= this.#most) return;
    const [oldest] = this.#entries.keys();
    if (oldest !== undefined) this.#entries.delete(oldest);
  }

  delete(key: K): void {
    this.#entries.delete(key);
  }

  get size(): number {
    return this.#entries.size;
  }
}
