/** Tries a chat model: the answer as it comes, what it cost, and the same call as code. */
import { useEffect, useRef, useState } from "preact/hooks";
import { link } from "../kit/address.ts";
import { get, type Page } from "../kit/api.ts";
import { usageText } from "../kit/call-columns.tsx";
import { Code } from "../kit/code.tsx";
import { ms, usd } from "../kit/format.ts";
import { Head } from "../kit/frame.tsx";
import { type CallableModel, firstChat, useModels } from "../kit/models.ts";
import { Facts, Fault, Ready } from "../kit/notices.tsx";
import type { TenantCall } from "../kit/types.ts";
import { chat } from "./chat-stream.ts";

interface Run {
  readonly text: string;
  readonly running: boolean;
  readonly stopped: boolean;
  readonly firstByteMs: number | null;
  readonly callId: string;
  readonly error?: Error;
}
const IDLE: Run = { text: "", running: false, stopped: false, firstByteMs: null, callId: "" };

export function Playground() {
  const models = useModels();
  return (
    <>
      <Head title="Playground" />
      <Ready of={models}>
        {(all) =>
          firstChat(all) === undefined ? (
            <p class="empty">This key may call no chat model. Ask your operator for one, or use another key.</p>
          ) : (
            <Try models={all.filter(({ kind }) => kind === "chat")} />
          )
        }
      </Ready>
    </>
  );
}

function Try({ models }: { models: readonly CallableModel[] }) {
  const [asked, setAsked] = useState({
    model: firstChat(models) ?? "",
    system: "",
    prompt: "Say hello.",
    maxTokens: "",
  });
  const [run, setRun] = useState<Run>(IDLE);
  const stop = useRef<AbortController>(undefined);
  useEffect(() => () => stop.current?.abort(), []);
  const maxTokens = asked.maxTokens ? Number(asked.maxTokens) : undefined;
  const start = async (event: Event) => {
    event.preventDefault();
    if (run.running) return;
    const control = new AbortController();
    stop.current = control;
    setRun({ ...IDLE, running: true });
    const change = (how: (before: Run) => Partial<Run>) => setRun((before) => ({ ...before, ...how(before) }));
    const messages = [
      ...(asked.system ? [{ role: "system", content: asked.system }] : []),
      { role: "user", content: asked.prompt },
    ];
    try {
      await chat(
        { model: asked.model, messages, ...(maxTokens !== undefined && { max_tokens: maxTokens }) },
        {
          text: (piece) => change(({ text }) => ({ text: text + piece })),
          firstByte: (firstByteMs) => change(() => ({ firstByteMs })),
          id: (callId) => change(() => ({ callId })),
        },
        control.signal,
      );
      change(() => ({ running: false }));
    } catch (error) {
      change(() =>
        control.signal.aborted ? { running: false, stopped: true } : { running: false, error: error as Error },
      );
    }
  };
  const field = (name: keyof typeof asked) => ({
    id: `try-${name}`,
    value: asked[name],
    onInput: (event: { currentTarget: { value: string } }) => setAsked({ ...asked, [name]: event.currentTarget.value }),
  });
  return (
    <div class="columns">
      <form onSubmit={start}>
        <div class="field">
          <label for="try-model">Model</label>
          <select {...field("model")}>
            {models.map(({ id }) => (
              <option key={id} value={id}>
                {id}
              </option>
            ))}
          </select>
        </div>
        <div class="field">
          <label for="try-system">Instructions</label>
          <textarea rows={2} {...field("system")} />
        </div>
        <div class="field">
          <label for="try-prompt">Message</label>
          <textarea rows={5} required {...field("prompt")} />
        </div>
        <div class="field">
          <label for="try-maxTokens">Longest answer, tokens</label>
          <input type="number" min={1} {...field("maxTokens")} />
        </div>
        <div class="buttons">
          <button type="submit" aria-disabled={run.running}>
            Send
          </button>
          <button type="button" class="plain" aria-disabled={!run.running} onClick={() => stop.current?.abort()}>
            Stop
          </button>
        </div>
      </form>
      <section>
        <h2>Answer</h2>
        <Fault error={run.error} />
        <div class="answer" role="log" aria-label="Answer" aria-busy={run.running} tabIndex={0}>
          {run.text || (
            <span class="quiet">
              {run.running ? "Waiting for the first word…" : "What the model says stands here."}
            </span>
          )}
        </div>
        {run.stopped && <p class="quiet">Stopped. What had come by then is charged.</p>}
        {(run.firstByteMs !== null || run.callId) && <Cost run={run} />}
        <h2>As code</h2>
        <Code
          example={{
            origin: location.origin,
            model: asked.model,
            prompt: asked.prompt,
            system: asked.system || undefined,
            maxTokens,
          }}
        />
      </section>
    </div>
  );
}

const costLater = (running: boolean, given: boolean): string =>
  running ? "when it has ended" : given ? "not reported yet: look under Calls" : "a moment…";

/** How often to look for the call in the reports, and how long: it stands there some seconds after its end. */
const LOOK_EVERY_MS = 700;
const LOOKS = 30;

function Cost({ run: { callId, running, firstByteMs } }: { run: Run }) {
  const [call, setCall] = useState<TenantCall>();
  const [given, setGiven] = useState(false);
  useEffect(() => {
    setCall(undefined);
    setGiven(false);
    if (running || !callId) return;
    let looks = 0;
    const timer = setInterval(async () => {
      const { data } = await get<Page<TenantCall>>("/account/calls", { from: "-1h", limit: 20 }).catch(() => ({
        data: [],
      }));
      const found = data.find(({ id }) => id === callId);
      if (found) setCall(found);
      if (found || ++looks >= LOOKS) clearInterval(timer);
      setGiven(looks >= LOOKS);
    }, LOOK_EVERY_MS);
    return () => clearInterval(timer);
  }, [callId, running]);
  return (
    <div class="cost" role="status">
      <Facts
        of={[
          ["First byte", ms(firstByteMs)],
          ["Cost", call ? usd(call.charged_usd) : costLater(running, given)],
          ["Usage", call ? usageText(call) || "none" : "–"],
          [
            "Request id",
            <a key="id" href={link("/calls")}>
              {callId}
            </a>,
          ],
        ]}
      />
    </div>
  );
}
