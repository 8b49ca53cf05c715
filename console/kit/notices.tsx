/** What a page says besides its data: faults, states, figures, bars. */
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Refused } from "./api.ts";
import type { Loaded } from "./load.ts";

/** What went wrong, in the API's words, and what to do. */
export function Fault({ error, retry }: { error: Error | undefined; retry?: () => void }) {
  if (!error) return null;
  const forbidden = error instanceof Refused && error.status === 403;
  return (
    <div class="fault" role="alert">
      <p>{error.message}</p>
      {forbidden && <p class="quiet">Ask an owner for a token or key of another role.</p>}
      {retry && !forbidden && (
        <button type="button" class="plain" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}

/** The data of a page, its fault, or a word that it is on its way. */
export function Ready<Data>({ of, children }: { of: Loaded<Data>; children: (data: Data) => ComponentChildren }) {
  return (
    <>
      <Fault error={of.error} retry={of.reload} />
      {of.data !== undefined ? children(of.data) : !of.error && <Waiting />}
    </>
  );
}

const LONG_MS = 5_000;
/** A word that something is on its way; after a while, what may be the matter. */
export function Waiting() {
  const [long, setLong] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLong(true), LONG_MS);
    return () => clearTimeout(timer);
  }, []);
  return (
    <p class="quiet loading" role="status">
      {long ? "Still loading: the gateway is slow to answer. Wait, or reload the page." : "Loading…"}
    </p>
  );
}

/** A button that acts at once, and says what went wrong. */
export function Act({ label, run }: { label: string; run(): Promise<unknown> }) {
  const [state, setState] = useState<{ busy: boolean; error?: Error }>({ busy: false });
  const act = () => {
    if (state.busy) return;
    setState({ busy: true });
    run().then(
      () => setState({ busy: false }),
      (error: Error) => setState({ busy: false, error }),
    );
  };
  return (
    <>
      <button type="button" class="plain" aria-disabled={state.busy} onClick={act}>
        {label}
      </button>
      <Fault error={state.error} />
    </>
  );
}

export function Badge({ kind, children }: { kind: "good" | "bad" | "warn" | "idle"; children: ComponentChildren }) {
  return <span class={`badge ${kind}`}>{children}</span>;
}

export interface Figure {
  readonly label: string;
  readonly value: string;
  /** The exact value, or what it means. */
  readonly title?: string | undefined;
  readonly href?: string | undefined;
  readonly kind?: "bad" | "warn" | undefined;
}
/** Figures at a glance. */
export function Figures({ of, label }: { of: readonly Figure[]; label: string }) {
  return (
    <dl class="figures" aria-label={label}>
      {of.map(({ label: name, value, title, href, kind }) => (
        <div key={name} class={kind}>
          <dt>{name}</dt>
          <dd title={title}>{href ? <a href={href}>{value}</a> : value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** A limit with what is used of it. */
export function Bar({ label, used, allowed, text }: { label: string; used: number; allowed: number; text: string }) {
  const share = allowed > 0 ? Math.min(1, used / allowed) : used > 0 ? 1 : 0;
  const kind = share >= 1 ? "full" : share >= 0.8 ? "high" : "";
  return (
    <div class="bar">
      <span>{label}</span>
      <meter class={kind} min={0} max={1} value={share} aria-label={label}>
        {text}
      </meter>
      <span class="number">{text}</span>
    </div>
  );
}

export const Facts = ({ of }: { of: readonly (readonly [string, ComponentChildren])[] }) => (
  <dl class="facts">
    {of.map(([name, value]) => (
      <div key={name}>
        <dt>{name}</dt>
        <dd>{value}</dd>
      </div>
    ))}
  </dl>
);
