/** An archive for the tests that want one: a bucket that can be broken, and an object that archives. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import type { DetailLimits } from "../../../src/core/archive/cut.ts";
import type { Stub } from "./account-support.ts";

declare global {
  namespace Cloudflare {
    interface Env {
      /** See vitest.config.ts. */
      readonly TEST_ARCHIVE: R2Bucket;
    }
  }
}

export const DAY_MS = 86_400_000;
export const DETAIL: DetailLimits = { ms: 35 * DAY_MS, bytes: 1_500_000_000 };

/** `breaks`: what the bucket does not do now, and in which moment of it; `lie`: what it gives is not what was put. */
export interface TestBucket {
  readonly bucket: R2Bucket;
  breaks: "before put" | "after put" | "get" | "lie" | null;
}

export function testBucket(): TestBucket {
  const real = env.TEST_ARCHIVE;
  const test: TestBucket = { breaks: null, bucket: undefined as unknown as R2Bucket };
  const put = async (...asked: Parameters<R2Bucket["put"]>) => {
    if (test.breaks === "before put") throw new Error("no put");
    const done = await real.put(...asked);
    if (test.breaks === "after put") throw new Error("put, and no answer");
    return done;
  };
  const get = async (...asked: Parameters<R2Bucket["get"]>) => {
    if (test.breaks === "get") throw new Error("no get");
    const found = await real.get(...asked);
    if (test.breaks !== "lie" || !found) return found;
    const bytes = new Uint8Array(await found.arrayBuffer());
    bytes[Math.floor(bytes.length / 2)]! ^= 1;
    return { etag: found.etag, arrayBuffer: async () => bytes.buffer };
  };
  const rest = {
    head: (name: string) => real.head(name),
    list: (options?: R2ListOptions) => real.list(options),
    delete: (names: string | string[]) => real.delete(names),
  };
  return Object.assign(test, { bucket: { put, get, ...rest } as unknown as R2Bucket });
}

/** Gives an object an archive; lost when the object is evicted. */
export async function withArchive(stub: Stub, bucket: R2Bucket, limits: DetailLimits = DETAIL): Promise<void> {
  await runInDurableObject(stub, (instance) => {
    const object = instance as unknown as { env: object; lives: object };
    object.env = { ...object.env, ARCHIVE: bucket };
    Object.assign(object.lives, { archive: limits });
  });
}

export async function emptyArchive(): Promise<void> {
  for (;;) {
    const { objects } = await env.TEST_ARCHIVE.list();
    if (objects.length === 0) return;
    await env.TEST_ARCHIVE.delete(objects.map(({ key }) => key));
  }
}

/** What stands in the archive, as anyone with gzip reads it: the names in order, and the lines of each. */
export async function archived(prefix: string): Promise<{ name: string; lines: Record<string, unknown>[] }[]> {
  const { objects } = await env.TEST_ARCHIVE.list({ prefix, include: ["customMetadata"] } as R2ListOptions);
  const parts = await Promise.all(
    objects.map(async ({ key }) => {
      const stored = await env.TEST_ARCHIVE.get(key);
      return { name: key, lines: await linesOf(new Uint8Array(await stored!.arrayBuffer())) };
    }),
  );
  const numberIn = (name: string) => Number(/-(\d+)\.jsonl/.exec(name)?.[1]);
  return parts.sort((a, b) => numberIn(a.name) - numberIn(b.name));
}

/** Members are found by their magic bytes and tried: no footer is trusted. */
async function linesOf(bytes: Uint8Array): Promise<Record<string, unknown>[]> {
  const starts = [...bytes.keys()].filter((at) => bytes[at] === 0x1f && bytes[at + 1] === 0x8b && bytes[at + 2] === 8);
  let text = "";
  for (let from = 0; from < bytes.length; ) {
    const ends = [...starts.filter((at) => at > from), bytes.length];
    let found = false;
    for (const end of ends) {
      try {
        const stream = new Blob([bytes.slice(from, end)]).stream().pipeThrough(new DecompressionStream("gzip"));
        text += await new Response(stream).text();
        from = end;
        found = true;
        break;
      } catch {
        // Not the end of a member.
      }
    }
    if (!found) throw new Error(`no member begins at ${from}`);
  }
  return text
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, unknown>)
    .filter((line) => !("footer" in line));
}
