/** Data of a page: loaded when its inputs change; what is there stays on the page until the new data has come. */
import { useCallback, useEffect, useState } from "preact/hooks";

export interface Loaded<Data> {
  readonly data: Data | undefined;
  readonly error: Error | undefined;
  readonly loading: boolean;
  reload(): void;
}

/** `inputs`: loads again when one of them changes. `everyMs`: loads again so often while the page is seen. */
export function useLoad<Data>(
  load: (signal: AbortSignal) => Promise<Data>,
  inputs: readonly unknown[],
  everyMs?: number,
): Loaded<Data> {
  const [state, setState] = useState<{ data?: Data; error?: Error; loading: boolean }>({ loading: true });
  const [round, setRound] = useState(0);
  const reload = useCallback(() => setRound((count) => count + 1), []);
  useEffect(() => {
    const stop = new AbortController();
    setState((before) => ({ ...before, loading: true }));
    load(stop.signal).then(
      (data) => stop.signal.aborted || setState({ data, loading: false }),
      (error: Error) => stop.signal.aborted || setState((before) => ({ ...before, error, loading: false })),
    );
    return () => stop.abort();
  }, [...inputs, round]);
  useEffect(() => {
    if (everyMs === undefined || state.loading) return;
    // Counted from the last answer: one that takes longer than this is waited for.
    const timer = setInterval(() => document.visibilityState === "visible" && reload(), everyMs);
    return () => clearInterval(timer);
  }, [everyMs, reload, state.loading]);
  return { data: state.data, error: state.error, loading: state.loading, reload };
}
