/** What the service offers: regions, platform models, and the instances that exist at the first start. */

export const REGIONS = ["us-east-1", "eu-west-1"] as const;

/** What a model or an instance is for. An endpoint lists the kinds it serves. */
export const MODEL_KINDS = [
  "chat",
  "image",
  "image_edit",
  "speech",
  "voice",
  "transcription",
  "embedding",
  "rerank",
  "video",
  "custom",
] as const;
export type ModelKind = (typeof MODEL_KINDS)[number];

/** Served from every region. */
export const PLATFORM_MODELS: ReadonlyMap<string, ModelKind> = new Map<string, ModelKind>([
  ["llama-7b", "chat"],
  ["llama-70b", "chat"],
  ["glyph-7b", "chat"],
  ["full-7b", "chat"],
  ["least-7b", "chat"],
  ["reason-7b", "chat"],
  ["image-turbo", "image"],
  ["image-edit", "image_edit"],
  ["tts-fast", "speech"],
  ["tts-multilingual", "speech"],
  ["voice-1", "voice"],
  ["stt-large", "transcription"],
  ["embed-small", "embedding"],
  ["glyph-embed", "embedding"],
  ["rerank-base", "rerank"],
  ["glyph-rerank", "rerank"],
  ["service-video-gen-2.0", "video"],
]);

/** A model that says no more than the contract names, and one that says all that OpenAI does. */
export const saysLeast = (model: string): boolean => model.startsWith("least-");
export const saysAll = (model: string): boolean => model.startsWith("full-");

/** A model that takes an output cap of chat as `max_completion_tokens` only. */
export const capsCompletions = (model: string): boolean => model.startsWith("reason-");

/** One replica of an instance. */
export interface Pod {
  readonly region: string;
  readonly healthy: boolean;
}

/** A user-deployed model. It is called as `<name>:<instance_id>`, or by its proxy path if it is custom. */
export interface Instance {
  readonly instance_id: number;
  readonly name: string;
  readonly account: string;
  readonly kind: ModelKind;
  readonly custom_api_path: string | null;
  readonly pods: readonly Pod[];
}

const everywhere: readonly Pod[] = REGIONS.map((region) => ({ region, healthy: true }));

const chat = (instance_id: number, name: string, account: string, pods = everywhere): Instance => ({
  instance_id,
  name,
  account,
  kind: "chat",
  custom_api_path: null,
  pods,
});

/** Two replicas each, except the one whose weights are on a file system of a single region. */
export const FIRST_INSTANCES: readonly Instance[] = [
  chat(1042, "llama-7b", "operator"),
  chat(1043, "llama-7b", "operator"),
  chat(2001, "tuned-7b", "operator", [{ region: "us-east-1", healthy: true }]),
  chat(3001, "llama-7b", "other"),
  { ...chat(4001, "echo", "operator"), kind: "custom", custom_api_path: "run" },
  { ...chat(4002, "echo", "other"), kind: "custom", custom_api_path: "run" },
];
