/** What `npm start` prints for a newcomer: commands to paste, and `ready` as the last line. */

import { DEMO_LAUNCH } from "./demo-compute.ts";

export interface Welcome {
  readonly gateway: string;
  readonly sandbox: string;
  readonly key: string;
  /** Whether the key may rent GPUs. */
  readonly compute: boolean;
  readonly adminToken: string;
  readonly stateDir: string;
}

export function welcome({ gateway, sandbox, key, compute, adminToken, stateDir }: Welcome): string {
  const body = JSON.stringify({
    model: "chat",
    stream: true,
    messages: [{ role: "user", content: "Say hello." }],
  });
  return `
  console       ${gateway}/console
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
${compute ? launching(gateway, key) : ""}
ready ${gateway}
`;
}

/** ID: the `id` in the answer to the launch. */
function launching(gateway: string, key: string): string {
  const [url, auth] = [`${gateway}/gpu-instances`, `-H 'Authorization: Bearer ${key}'`];
  return `
A GPU instance for an hour at most; then what it is doing, and its end (ID is the id that the launch answers):

curl ${url} ${auth} -H 'Content-Type: application/json' -d '${JSON.stringify(DEMO_LAUNCH)}'
curl ${url}/ID ${auth}
curl -X POST ${url}/ID/terminate ${auth}

The same with progress and costs: TOLLGATE_URL=${gateway} TOLLGATE_KEY=${key} npx node examples/compute.ts
`;
}
