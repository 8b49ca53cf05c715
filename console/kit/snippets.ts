/**
 * The same chat as a command and as programs. Texts are quoted for their language, so that what is typed cannot end
 * them.
 */

export interface Example {
  readonly origin: string;
  readonly model: string;
  readonly prompt: string;
  readonly system?: string | undefined;
  readonly maxTokens?: number | undefined;
}
export const LANGUAGES = ["curl", "Python", "TypeScript"] as const;
export type Language = (typeof LANGUAGES)[number];

function messages({ prompt, system }: Example): { role: string; content: string }[] {
  return [...(system ? [{ role: "system", content: system }] : []), { role: "user", content: prompt }];
}
/** Of a shell: a single quote ends the text, stands alone, and begins it again. */
const shell = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

export function snippet(language: Language, example: Example): string {
  const { origin, model, maxTokens } = example;
  const said = messages(example);
  const cap = maxTokens === undefined ? {} : { max_tokens: maxTokens };
  switch (language) {
    case "curl":
      return `curl -N ${shell(`${origin}/v1/chat/completions`)} \\
  -H "Authorization: Bearer $TOLLGATE_KEY" -H 'Content-Type: application/json' \\
  -d ${shell(JSON.stringify({ model, stream: true, ...cap, messages: said }))}`;
    case "Python":
      return `import os
from openai import OpenAI

client = OpenAI(base_url=${JSON.stringify(`${origin}/v1`)}, api_key=os.environ["TOLLGATE_KEY"])
stream = client.chat.completions.create(
    model=${JSON.stringify(model)},
    messages=${JSON.stringify(said)},${maxTokens === undefined ? "" : `\n    max_tokens=${maxTokens},`}
    stream=True,
)
for chunk in stream:
    if chunk.choices:
        print(chunk.choices[0].delta.content or "", end="", flush=True)`;
    case "TypeScript":
      return `import OpenAI from "openai";

const client = new OpenAI({ baseURL: ${JSON.stringify(`${origin}/v1`)}, apiKey: process.env.TOLLGATE_KEY });
const stream = await client.chat.completions.create({
  model: ${JSON.stringify(model)},
  messages: ${JSON.stringify(said)},${maxTokens === undefined ? "" : `\n  max_tokens: ${maxTokens},`}
  stream: true,
});
for await (const chunk of stream) process.stdout.write(chunk.choices[0]?.delta.content ?? "");`;
  }
}
