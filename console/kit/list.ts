/** A list of the API page by page: the first when its query changes, further ones when they are asked for. */
import { useEffect, useRef, useState } from "preact/hooks";
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
  const key = JSON.stringify([path, query]);
  const [state, setState] = useState<State<Row>>({ key, cursor: null, busy: true, pages: 0 });
  const [round, setRound] = useState(0);
  // Of the query that is shown: its answers count, others come too late.
  const stop = useRef(new AbortController());
  const load = (cursor: string | null, before: readonly Row[], pages: number) => {
    if (path === null) return;
    const { signal } = stop.current;
    setState((now) => ({ ...now, busy: true }));
    get<Page<Row>>(path, { ...query, cursor }, signal).then(
      ({ data, next_cursor }) =>
        signal.aborted || setState({ key, rows: [...before, ...data], cursor: next_cursor, busy: false, pages }),
      // Rows of another query are no answer to this one.
      (error: Error) =>
        signal.aborted ||
        setState((now) => ({ ...(now.key === key ? now : { cursor: null, pages: 0 }), key, error, busy: false })),
    );
  };
  useEffect(() => {
    stop.current = new AbortController();
    load(null, [], 1);
    return () => stop.current.abort();
  }, [key, round]);
  const { rows, cursor, error, busy, pages } = state;
  const looks = everyMs !== undefined && !busy && pages < 2;
  useEffect(() => {
    if (!looks) return;
    // Counted from the last answer: one that takes longer than this is waited for.
    const timer = setInterval(() => document.visibilityState === "visible" && setRound((count) => count + 1), everyMs);
    return () => clearInterval(timer);
  }, [looks, everyMs]);
  const more = cursor === null ? undefined : () => load(cursor, rows ?? [], pages + 1);
  return { rows, error, busy, more, reload: () => setRound((count) => count + 1) };
}

interface State<Row> {
  /** The query whose rows these are. */
  readonly key: string;
  readonly rows?: readonly Row[];
  readonly cursor: string | null;
  readonly error?: Error;
  readonly busy: boolean;
  readonly pages: number;
}
