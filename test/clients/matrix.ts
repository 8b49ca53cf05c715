/**
 * Which client does what: one row a capability, one column a client. The types make each client's tests cover exactly
 * what stands here, and docs/clients.md is written from it.
 */

/** By name, in the words of the table. */
export const CAPABILITIES = {
  chat: "chat",
  chatStream: "chat, streamed",
  tools: "tools in chat: call, result, second turn",
  structured: "chat that answers by a JSON schema",
  pictures: "pictures in chat",
  responses: "responses",
  responsesStream: "responses, streamed",
  responsesTools: "tools in responses: call, result, second turn",
  responsesSchema: "responses that answer by a JSON schema",
  nextTurn: "next turn by `previous_response_id`",
  turnsSent: "next turn by all messages, in responses with `store: false`",
  embeddings: "embeddings of a list",
  tokenArrays: "embeddings of token arrays",
  images: "images",
  imageEdits: "edits of images",
  speech: "speech",
  transcription: "transcription",
  models: "list of models",
  refusals: "401, 402, 403, 404, told as the client's own errors",
  busy: "429, repeated until it is served",
  unavailable: "503, repeated until it is served",
  broken: "a broken stream throws",
  leaving: "leaving in mid-stream",
  parallel: "100 streams at once, each whole",
} as const;
type Capability = keyof typeof CAPABILITIES;

export interface Client {
  /** As the table calls it. */
  readonly name: string;
  /** The packages whose versions the table shows. */
  readonly packages: readonly string[];
  /** The line that sets the base URL. */
  readonly setUp: string;
  readonly does: readonly Capability[];
}

export const FAILURES = ["refusals", "busy", "unavailable", "broken", "leaving"] as const;

const CHAT = ["chat", "chatStream", "tools", "structured", "pictures"] as const;
const RESPONSES = ["responses", "responsesStream", "responsesTools", "responsesSchema", "nextTurn"] as const;

/**
 * What the service's models of text differ in: each of these is done with one that says all and one that says the
 * least.
 */
export const IN_BOTH_MANNERS: ReadonlySet<Capability> = new Set<Capability>([
  ...(["chat", "chatStream", "tools", "structured"] as const),
  ...RESPONSES,
  "turnsSent",
]);

export const CLIENTS = {
  openai: {
    name: "OpenAI SDK",
    packages: ["openai"],
    setUp: "new OpenAI({ baseURL, apiKey })",
    does: [
      ...CHAT,
      ...RESPONSES,
      ...["embeddings", "tokenArrays", "images", "imageEdits", "speech", "transcription", "models"],
      ...FAILURES,
      "parallel",
    ],
  },
  vercel: {
    name: "Vercel AI SDK, OpenAI",
    packages: ["ai", "@ai-sdk/openai"],
    setUp: "createOpenAI({ baseURL, apiKey })",
    does: [...CHAT, ...RESPONSES, "turnsSent", ...["embeddings", "images", "speech", "transcription"], ...FAILURES],
  },
  compatible: {
    name: "Vercel AI SDK, OpenAI-compatible",
    packages: ["ai", "@ai-sdk/openai-compatible"],
    setUp: 'createOpenAICompatible({ name: "tollgate", baseURL, apiKey })',
    does: [...CHAT, "embeddings", "images", ...FAILURES],
  },
  langchain: {
    name: "LangChain",
    packages: ["@langchain/openai", "@langchain/core"],
    setUp: "new ChatOpenAI({ model, apiKey, configuration: { baseURL } })",
    does: [...CHAT, ...RESPONSES, "embeddings", "images", ...FAILURES],
  },
  agents: {
    name: "OpenAI Agents",
    packages: ["@openai/agents"],
    setUp: "new Runner({ modelProvider: new OpenAIProvider({ baseURL, apiKey }) })",
    does: [...CHAT, ...RESPONSES, ...FAILURES],
  },
} as const satisfies Record<string, Client>;
export type ClientId = keyof typeof CLIENTS;

/**
 * Clients too heavy for `npm ci`. `npm run clients` installs them and runs the same acts, by a program or a command
 * each.
 */
interface HeavyClient {
  readonly name: string;
  readonly package: string;
  readonly setUp: string;
  /** What is run. */
  readonly does: string;
}

export const HEAVY = {
  codex: {
    name: "Codex CLI",
    package: "@openai/codex",
    setUp:
      '`[model_providers.tollgate]` with `base_url`, `env_key`, `wire_api = "responses"`, and `web_search = "disabled"`',
    does: "`codex exec`: responses, streamed, with a tool's call and result",
  },
  qwen: {
    name: "Qwen Code",
    package: "@qwen-code/qwen-code",
    setUp: "`OPENAI_BASE_URL`, `OPENAI_API_KEY`, `--auth-type openai`",
    does: "`qwen -o json`: chat, streamed, with a tool's call and result",
  },
  opencode: {
    name: "OpenCode",
    package: "opencode-ai",
    setUp: '`provider.tollgate` with `npm: "@ai-sdk/openai-compatible"` and `options.baseURL`',
    does: "`opencode run`: chat, streamed, with a tool's call and result",
  },
  instructor: {
    name: "Instructor",
    package: "@instructor-ai/instructor",
    setUp: "`Instructor({ client: new OpenAI({ baseURL, apiKey }), mode })`",
    does: "an object by a schema, in its mode `TOOLS`",
  },
  llamaindex: {
    name: "LlamaIndex",
    package: "@llamaindex/openai",
    setUp: "`new OpenAI({ model, apiKey, baseURL })`",
    does: "chat, whole and streamed, and embeddings of a list",
  },
  mastra: {
    name: "Mastra",
    package: "@mastra/core",
    setUp: "`new Agent({ model: { providerId, modelId, url, apiKey } })`",
    does: "an agent with a tool, whole and streamed",
  },
} as const satisfies Record<string, HeavyClient>;
export type HeavyId = keyof typeof HEAVY;
