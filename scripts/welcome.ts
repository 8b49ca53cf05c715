/** What `npm start` prints for a newcomer: commands to paste, and `ready` as the last line. */

export interface Welcome {
  readonly gateway: string;
  readonly sandbox: string;
  readonly key: string;
  readonly adminToken: string;
  readonly stateDir: string;
}

export function welcome({ gateway, sandbox, key, adminToken, stateDir }: Welcome): string {
  const body = JSON.stringify({
    model: "chat",
    stream: true,
    messages: [{ role: "user", content: "Say hello." }],
  });
  return `
  base URL      ${gateway}/v1
  key           ${key}
  admin API     ${gateway}/admin
  admin token   ${adminToken}
  sandbox       ${sandbox}
  state         ${stateDir}

A streamed chat completion:

curl -N ${gateway}/v1/chat/completions -H 'Authorization: Bearer ${key}' -H 'Content-Type: application/json' -d '${body}'

From the SDK:

  import OpenAI from "openai";
  const client = new OpenAI({ baseURL: "${gateway}/v1", apiKey: "${key}" });
  const answer = await client.chat.completions.create({
    model: "chat",
    messages: [{ role: "user", content: "Say hello." }],
  });
  console.log(answer.choices[0].message.content);

ready ${gateway}
`;
}
