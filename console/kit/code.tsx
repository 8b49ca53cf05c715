/** An example in several languages, one of them shown, with a button that copies it. */
import { useState } from "preact/hooks";
import { Copied } from "./dialog.tsx";
import { type Example, LANGUAGES, type Language, snippet } from "./snippets.ts";

export function Code({ example }: { example: Example }) {
  const [language, setLanguage] = useState<Language>("curl");
  return (
    <div class="code">
      <fieldset class="range">
        <legend class="hidden">Language</legend>
        {LANGUAGES.map((one) => (
          <button
            key={one}
            type="button"
            class="plain"
            aria-pressed={one === language}
            onClick={() => setLanguage(one)}
          >
            {one}
          </button>
        ))}
      </fieldset>
      <Copied label={`Example in ${language}`} text={snippet(language, example)} />
    </div>
  );
}
