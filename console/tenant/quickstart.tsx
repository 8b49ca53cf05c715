/** The first call, to copy, with this gateway's address and a model that the key may call. */
import { useState } from "preact/hooks";
import { Code } from "../kit/code.tsx";
import { Copied } from "../kit/dialog.tsx";
import { Head } from "../kit/frame.tsx";
import { firstChat, useModels } from "../kit/models.ts";
import { Ready } from "../kit/notices.tsx";

export function Quickstart() {
  const loaded = useModels();
  const [chosen, setChosen] = useState<string>();
  return (
    <>
      <Head title="Quickstart" />
      <Ready of={loaded}>
        {(models) => {
          const model = chosen ?? firstChat(models);
          if (model === undefined)
            return <p class="empty">This key may call no chat model. Ask your operator for one, or use another key.</p>;
          return (
            <>
              <h2>1. Your key</h2>
              <p>
                Put it into the environment of your shell. The console never shows it again; a new one is made under
                Keys.
              </p>
              <Copied label="Key in the environment" text={"export TOLLGATE_KEY=sk-tg-..."} />
              <h2>2. The first call</h2>
              <p>
                <label>
                  Model{" "}
                  <select value={model} onChange={(event) => setChosen(event.currentTarget.value)}>
                    {models
                      .filter(({ kind }) => kind === "chat")
                      .map(({ id }) => (
                        <option key={id} value={id}>
                          {id}
                        </option>
                      ))}
                  </select>
                </label>
              </p>
              <Code example={{ origin: location.origin, model, prompt: "Say hello." }} />
              <h2>3. Any tool of OpenAI's API</h2>
              <p>Give it this base URL and your key.</p>
              <Copied label="Base URL" text={`${location.origin}/v1`} />
              <p>
                What the call cost stands under <a href="/console/calls">Calls</a> some seconds later.
              </p>
            </>
          );
        }}
      </Ready>
    </>
  );
}
