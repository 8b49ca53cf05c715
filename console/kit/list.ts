/** A list of the API page by page: the first when its query changes, further ones when they are asked for. */
import { useEffect, useState } from "preact/hooks";
import { get, type Page, type Query } from "./api.ts";

export interface Listed<Row> {
  readonly rows: readonly Row[] | undefined;
  readonly error: Error | undefined;
  readonly busy: boolean;
  /** Undefined at the end of the list. */
  readonly more: (() => void) | undefined;
  reload(): void;
}

/** `everyMs`: looks for new rows so often, while the page is seen and only its first page was asked for. */
export function useList<Row>(path: string | null, query: Query = {}, everyMs?: number): Listed<Row> {
  const [state, setState] = useState<{ rows?: readonly Row[]; cursor: string | null; error?: Error; busy: boolean }>({
    cursor: null,
    busy: true,
  });
  const [round, setRound] = useState(0);
  const key = JSON.stringify([path, query]);
  const load = (cursor: string | null, before: readonly Row[], signal?: AbortSignal) => {
    if (path === null) return;
    setState((now) => ({ ...now, busy: true }));
    get<Page<Row>>(path, { ...query, cursor }, signal).then(
      ({ data, next_cursor }) =>
        signal?.aborted || setState({ rows: [...before, ...data], cursor: next_cursor, busy: false }),
      (error: Error) => signal?.aborted || setState((now) => ({ ...now, error, busy: false })),
    );
  };
  useEffect(() => {
    const stop = new AbortController();
    load(null, [], stop.signal);
    return () => stop.abort();
  }, [key, round]);
  useEffect(() => {
    if (everyMs === undefined) return;
    const timer = setInterval(() => document.visibilityState === "visible" && setRound((count) => count + 1), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  const { rows, cursor, error, busy } = state;
  const more = cursor === null ? undefined : () => load(cursor, rows ?? []);
  return { rows, error, busy, more, reload: () => setRound((count) => count + 1) };
}
