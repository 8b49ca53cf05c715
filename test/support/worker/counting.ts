/**
 * Counts what a call makes others do, by standing between the Worker and its bindings: nothing here trusts what the
 * code says of itself.
 */
import { createExecutionContext, runInDurableObject, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { vi } from "vitest";
import type { UsageMessage } from "../../../src/core/account/hold.ts";

export interface Counts {
  /** `get`, `getWithMetadata`, `list`; each is billed, cached or not. */
  kvReads: number;
  kvWrites: number;
  /** Statements of D1, in a batch or alone. */
  d1Statements: number;
  /** Calls of an account object. */
  rpcs: number;
  /** SQLite rows written in the account object, index entries with them, as Cloudflare bills them. */
  rowsWritten: number;
  /** Alarms set; each is billed as a row. */
  alarmsSet: number;
  queueMessages: number;
  /** `fetch` to an upstream. */
  subrequests: number;
}

const NOTHING: Counts = {
  kvReads: 0,
  kvWrites: 0,
  d1Statements: 0,
  rpcs: 0,
  rowsWritten: 0,
  alarmsSet: 0,
  queueMessages: 0,
  subrequests: 0,
};

/** A worker as `src/index.ts` exports it. */
export type Worker = Pick<Required<ExportedHandler<Env>>, "fetch">;

export class Counter {
  #counts: Counts = { ...NOTHING };
  readonly #cursors: { cursor: SqlStorageCursor<Record<string, SqlStorageValue>>; seen: number }[] = [];
  /** What had been counted when the first upstream was called. */
  beforeUpstream: Counts | undefined;
  /** What the objects handed to the queue. */
  readonly messages: UsageMessage[] = [];
  /** The bindings, counted. */
  readonly env: Env;

  /** `answer`: what upstreams say. */
  constructor(answer: (request: Request) => Response) {
    this.env = {
      ...env,
      EDGE: this.#kv(env.EDGE),
      BOOKS: this.#d1(env.BOOKS),
      ACCOUNTS: this.#objects(env.ACCOUNTS),
    };
    vi.spyOn(globalThis, "fetch").mockImplementation(async (input, init) => {
      this.beforeUpstream ??= this.counts();
      this.#counts.subrequests++;
      return answer(new Request(input as RequestInfo, init as RequestInit));
    });
  }

  /** So far, since the last `restart`. */
  counts(): Counts {
    for (const entry of this.#cursors) {
      this.#counts.rowsWritten += entry.cursor.rowsWritten - entry.seen;
      entry.seen = entry.cursor.rowsWritten;
    }
    return { ...this.#counts };
  }

  restart(): void {
    this.counts();
    this.#cursors.length = 0;
    this.#counts = { ...NOTHING };
    this.beforeUpstream = undefined;
  }

  /** One request to the end of its body and of what it left running. */
  async call(worker: Worker, request: Request): Promise<{ status: number; text: string }> {
    const context = createExecutionContext();
    const response = await worker.fetch(request as never, this.env, context);
    const text = await response.text();
    await waitOnExecutionContext(context);
    return { status: response.status, text };
  }

  /** From now on this object's rows, alarms and messages count; the messages go no further than `messages`. */
  async watch(stub: DurableObjectStub): Promise<void> {
    await runInDurableObject(stub, (instance, { storage }) => {
      const exec = storage.sql.exec.bind(storage.sql);
      const setAlarm = storage.setAlarm.bind(storage);
      override(storage.sql, "exec", (query: string, ...bindings: unknown[]) => {
        const cursor = exec(query, ...bindings);
        this.#cursors.push({ cursor, seen: 0 });
        return cursor;
      });
      override(storage, "setAlarm", (time: number) => {
        this.#counts.alarmsSet++;
        return setAlarm(time);
      });
      const send = async (message: UsageMessage) => {
        this.#counts.queueMessages++;
        this.messages.push(message);
      };
      Object.assign(instance, { env: { ...env, USAGE: { send } } });
    });
  }

  #kv(kv: KVNamespace): KVNamespace {
    return intercept(kv, (name) => {
      if (name === "put" || name === "delete") this.#counts.kvWrites++;
      else this.#counts.kvReads++;
    });
  }

  #objects(namespace: Env["ACCOUNTS"]): Env["ACCOUNTS"] {
    const counted = (stub: object) => intercept(stub, () => this.#counts.rpcs++);
    return new Proxy(namespace, {
      get: (target, name) => {
        const method = Reflect.get(target, name, target) as (...given: unknown[]) => object;
        if (name !== "getByName" && name !== "get") return method.bind(target);
        return (...given: unknown[]) => counted(method.apply(target, given));
      },
    });
  }

  #d1(database: D1Database): D1Database {
    const originals = new WeakMap<object, D1PreparedStatement>();
    const statement = (original: D1PreparedStatement): D1PreparedStatement => {
      const wrapped = {
        bind: (...values: unknown[]) => statement(original.bind(...values)),
        ...Object.fromEntries(
          (["first", "all", "run", "raw"] as const).map((name) => [
            name,
            (...given: unknown[]) => {
              this.#counts.d1Statements++;
              return (original[name] as (...given: unknown[]) => unknown)(...given);
            },
          ]),
        ),
      } as unknown as D1PreparedStatement;
      originals.set(wrapped, original);
      return wrapped;
    };
    return {
      prepare: (sql: string) => statement(database.prepare(sql)),
      batch: (statements: D1PreparedStatement[]) => {
        this.#counts.d1Statements += statements.length;
        return database.batch(statements.map((one) => originals.get(one) ?? one));
      },
    } as unknown as D1Database;
  }
}

/** Calls of any of its methods are reported by name. */
function intercept<T extends object>(target: T, called: (name: string) => void): T {
  return new Proxy(target, {
    get: (_, name) => {
      const method = Reflect.get(target, name, target) as unknown;
      if (typeof method !== "function") return method;
      return (...given: unknown[]) => {
        called(String(name));
        return Reflect.apply(method, target, given);
      };
    },
  });
}

function override(target: object, name: string, value: unknown): void {
  Object.defineProperty(target, name, { configurable: true, value });
}
