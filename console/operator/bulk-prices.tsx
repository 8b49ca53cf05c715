/** Raises or lowers many prices at once: dated rows, shown before they are written, and written one after another. */
import { useEffect, useRef, useState } from "preact/hooks";
import { api, part } from "../kit/api.ts";
import { kindOf } from "../kit/dialog.tsx";
import { usd, words } from "../kit/format.ts";
import { Fault } from "../kit/notices.tsx";
import type { PriceRow } from "../kit/types.ts";

interface Change {
  readonly model: string;
  readonly free: boolean;
  readonly prices: Readonly<Record<string, { cost_usd: number; price_usd: number | null }>>;
  readonly shown: readonly string[];
}

/** `llama-*` or a name. Models without a price of their own follow their cost, so they have none to change. */
function changes(rows: readonly PriceRow[], pattern: string, percent: number): Change[] {
  const fits = (model: string) =>
    pattern.endsWith("*") ? model.startsWith(pattern.slice(0, -1)) : pattern === "" || model === pattern;
  return rows.flatMap(({ model, free, prices }) => {
    const own = Object.entries(prices).filter(([, { price_usd }]) => price_usd !== null);
    if (free || own.length === 0 || !fits(model)) return [];
    const next = (price: number) => Number((price * (1 + percent / 100)).toFixed(9));
    return {
      model,
      free,
      prices: Object.fromEntries(
        Object.entries(prices).map(([unit, { cost_usd, price_usd }]) => [
          unit,
          { cost_usd, price_usd: price_usd === null ? null : next(price_usd) },
        ]),
      ),
      shown: own.map(
        ([unit, { price_usd }]) => `${words(unit)}: ${usd(price_usd ?? 0)} to ${usd(next(price_usd ?? 0))}`,
      ),
    };
  });
}

interface Props {
  readonly rows: readonly PriceRow[];
  onDone(): void;
  /** Closed while it wrote: the model that is being written is the last one. */
  onStopped(written: number, of: number): void;
}

export function BulkChange({ rows, onDone, onStopped }: Props) {
  const [typed, setTyped] = useState({ pattern: "", percent: "10", from: "" });
  const [state, setState] = useState<{ done: number; busy: boolean; error?: Error }>({ done: 0, busy: false });
  const planned = changes(rows, typed.pattern.trim(), Number(typed.percent));
  const closed = useRef(false);
  useEffect(
    () => () => {
      closed.current = true;
    },
    [],
  );
  const write = async () => {
    setState({ done: 0, busy: true });
    let done = 0;
    try {
      for (const { model, free, prices } of planned) {
        if (closed.current) return onStopped(done, planned.length);
        await api("PUT", `/admin/models/${part(model)}/prices`, {
          prices,
          free,
          ...(typed.from && { from: `${typed.from}:00Z` }),
        });
        done += 1;
        setState({ done, busy: true });
      }
      onDone();
    } catch (error) {
      if (closed.current) return onStopped(done, planned.length);
      setState({ done, busy: false, error: error as Error });
    }
  };
  const field = (name: keyof typeof typed, label: string, type: string, hint: string) => (
    <div class="field">
      <label for={`bulk-${name}`}>{label}</label>
      <input
        id={`bulk-${name}`}
        {...kindOf(type)}
        value={typed[name]}
        step="any"
        aria-describedby={`bulk-${name}-hint`}
        onInput={(event) => setTyped({ ...typed, [name]: event.currentTarget.value })}
      />
      <small id={`bulk-${name}-hint`}>{hint}</small>
    </div>
  );
  return (
    <>
      {field("pattern", "Models", "text", "A name, or llama-* for all that begin so; empty: all")}
      {field("percent", "Percent", "number", "Below zero lowers them")}
      {field("from", "From (UTC)", "datetime-local", "Empty: now")}
      <h3>What would change: {planned.length} models</h3>
      <ul class="preview">
        {planned.map(({ model, shown }) => (
          <li key={model}>
            <strong>{model}</strong> {shown.join("; ")}
          </li>
        ))}
      </ul>
      <Fault error={state.error} />
      {state.error && (
        <p>
          {state.done} of {planned.length} are written. What is written stays.
        </p>
      )}
      {state.busy && (
        <p role="status">
          <progress aria-label="Prices written" max={planned.length} value={state.done} />
          Closing this stops it: what is written stays.
        </p>
      )}
      <div class="buttons">
        <button type="button" disabled={state.busy || planned.length === 0 || !Number(typed.percent)} onClick={write}>
          {state.busy ? `Writing ${state.done} of ${planned.length}…` : "Write these prices"}
        </button>
      </div>
    </>
  );
}
