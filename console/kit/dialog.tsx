/** Dialogs and their forms: the browser's own `dialog`, which keeps the focus and closes by Escape. */
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { named } from "./format.ts";
import { Fault } from "./notices.tsx";

export function Dialog({ title, onClose, children }: { title: string; onClose(): void; children: ComponentChildren }) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const [dialog, opener] = [element.current, document.activeElement];
    dialog?.showModal();
    return () => {
      dialog?.close();
      setTimeout(() => returnFocus(opener));
    };
  }, []);
  return (
    <dialog ref={element} onClose={onClose} aria-label={named(title)}>
      <header>
        <h2>{named(title)}</h2>
        <button type="button" class="plain" aria-label="Close" onClick={() => element.current?.close()}>
          ×
        </button>
      </header>
      {children}
    </dialog>
  );
}

/** To the button that opened the dialog; to the page where it is gone too, as with what was deleted. */
function returnFocus(opener: Element | null): void {
  if (document.activeElement !== document.body) return;
  if (opener instanceof HTMLElement) opener.focus();
  if (document.activeElement === document.body) document.getElementById("main")?.focus();
}

export interface Field {
  readonly name: string;
  readonly label: string;
  readonly hint?: string;
  readonly value?: string | undefined;
  readonly type?: "text" | "number" | "password" | "checkbox" | "datetime-local" | "month";
  readonly options?: readonly (readonly [value: string, label: string])[];
  readonly required?: boolean;
  readonly multiline?: boolean;
}
/** What was typed, by name; a box that is not ticked is empty. */
export type Typed = Readonly<Record<string, string>>;

interface FormProps {
  readonly fields: readonly Field[];
  readonly submit: string;
  readonly danger?: boolean;
  readonly children?: ComponentChildren;
  onSubmit(typed: Typed): Promise<unknown>;
}

export function Form({ fields, submit, danger, children, onSubmit }: FormProps) {
  const [state, setState] = useState<{ busy: boolean; error?: Error }>({ busy: false });
  const send = async (event: SubmitEvent) => {
    event.preventDefault();
    if (state.busy) return;
    const form = event.currentTarget as HTMLFormElement;
    const typed = Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, String(value).trim()]));
    setState({ busy: true });
    try {
      await onSubmit(typed);
      setState({ busy: false });
    } catch (error) {
      setState({ busy: false, error: error as Error });
    }
  };
  return (
    <form onSubmit={send}>
      {fields.map((field) => (
        <Input key={field.name} {...field} />
      ))}
      {children}
      <Fault error={state.error} />
      <div class="buttons">
        <button type="submit" class={danger ? "danger" : undefined} aria-disabled={state.busy}>
          {state.busy ? "Working…" : submit}
        </button>
      </div>
    </form>
  );
}

/** The types of a field have no roles of their own, so one stands for all. */
export const kindOf = (type: string): { type: "text" } => ({ type }) as { type: "text" };

function Input({ name, label, hint, value = "", type = "text", options, required, multiline }: Field) {
  const told = hint ? { "aria-describedby": `${name}-hint` } : {};
  const shared = { name, id: `field-${name}`, required: required ?? false, ...told };
  return (
    <div class={`field ${type}`}>
      <label for={`field-${name}`}>{label}</label>
      {options ? (
        <select {...shared}>
          {options.map(([option, text]) => (
            <option key={option} value={option} selected={option === value}>
              {text}
            </option>
          ))}
        </select>
      ) : multiline ? (
        <textarea {...shared} rows={4} defaultValue={value} />
      ) : type === "checkbox" ? (
        <input {...shared} type="checkbox" value="yes" defaultChecked={value === "yes"} />
      ) : (
        <input {...shared} {...kindOf(type)} step="any" defaultValue={value} autocomplete="off" />
      )}
      {hint && <small id={`${name}-hint`}>{hint}</small>}
    </div>
  );
}

/** A button that opens a dialog. */
export function Opens({
  label,
  title,
  kind,
  children,
}: {
  label: string;
  title: string;
  kind?: "danger" | "plain";
  children: (close: () => void) => ComponentChildren;
}) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <button type="button" class={kind} onClick={() => setOpen(true)}>
        {label}
      </button>
      {open && (
        <Dialog title={title} onClose={() => setOpen(false)}>
          {children(() => setOpen(false))}
        </Dialog>
      )}
    </>
  );
}

/** Asks before something that cannot be taken back. */
export const Confirm = ({
  label,
  title,
  text,
  run,
}: {
  label: string;
  title: string;
  text: string;
  run(): Promise<unknown>;
}) => (
  <Opens label={label} title={title} kind="danger">
    {(close) => (
      <Form fields={[]} submit={label} danger onSubmit={() => run().then(close)}>
        <p>{text}</p>
      </Form>
    )}
  </Opens>
);

/** A text to copy, such as a secret or an example. */
export function Copied({ text, label }: { text: string; label: string }) {
  const [done, setDone] = useState<"Copied" | "Selected: copy it by hand">();
  const shown = useRef<HTMLElement>(null);
  const copy = async () => {
    // Browsers have no clipboard for pages on http, or refuse it.
    const copied = await Promise.resolve(navigator.clipboard?.writeText(text).then(() => true)).catch(() => false);
    if (!copied && shown.current) getSelection()?.selectAllChildren(shown.current);
    setDone(copied ? "Copied" : "Selected: copy it by hand");
    if (copied) setTimeout(() => setDone(undefined), 1_500);
  };
  return (
    <section class="copied" aria-label={label}>
      <pre tabIndex={0}>
        <code ref={shown}>{text}</code>
      </pre>
      <button type="button" class="plain" onClick={copy}>
        <span aria-live="polite">{done ?? "Copy"}</span>
      </button>
    </section>
  );
}
