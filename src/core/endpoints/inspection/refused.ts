/**
 * The list of fields that are refused wherever the upstream may read them as parameters (docs/design.md, section 4):
 * they would multiply usage beyond the hold, change the model, host or price, defer the answer, or access what is
 * stored at the upstream, where all tenants share the operator's account. Everything else passes unchanged.
 *
 * The names come from the OpenAI API and from engines and routers behind it: vLLM, SGLang, TGI, llama.cpp, Ollama,
 * LiteLLM, OpenRouter, and services that charge for searches.
 */
export interface RefusedField {
  readonly why: string;
  /** Values without effect, in addition to null, false and an empty list. */
  readonly isHarmless?: (value: unknown) => boolean;
}

interface Group extends RefusedField {
  readonly names: string;
}

const isOne = (value: unknown): boolean => value === 1;
const isEmptyObject = (value: unknown): boolean =>
  typeof value === "object" && value !== null && Object.keys(value).length === 0;
const isOneOf =
  (...values: unknown[]) =>
  (value: unknown): boolean =>
    values.includes(value);
const isTextOnly = (value: unknown): boolean => Array.isArray(value) && value.every((mode) => mode === "text");

const listed = (names: string, field: RefusedField): ReadonlyMap<string, RefusedField> =>
  new Map(names.split(" ").map((name) => [name, field]));

const MODEL = "the model is chosen by `model` alone";
const HOST = "the upstream is the operator's choice";
export const SEARCH = "tools that the service would run are not available";

const GROUPS: readonly Group[] = [
  {
    why: "it multiplies usage",
    names: "best_of num_beams beam_width num_return_sequences candidate_count num_generations num_results n_cmpl n",
    isHarmless: isOne,
  },
  { why: "it multiplies usage", names: "use_beam_search prediction num_retries max_retries", isHarmless: isOneOf(0) },
  { why: "it replaces the prompt that is counted", names: "chat_template" },
  {
    why: "it changes what a part counts",
    names: "mm_processor_kwargs media_io_kwargs min_pixels max_pixels vl_high_resolution_images",
    isHarmless: isEmptyObject,
  },
  {
    why: SEARCH,
    names:
      "web_search_options web_search enable_search enable_web_search search_parameters search_options search_settings " +
      "plugins connectors mcp_servers enable_code_interpreter code_execution file_search google_search builtin_tools",
  },
  { why: SEARCH, names: "tool_resources compound_custom", isHarmless: isEmptyObject },
  {
    why: "it has a price of its own; leave it out",
    names: "service_tier",
    isHarmless: isOneOf("auto", "default"),
  },
  {
    why: "it has a price of its own; leave it out",
    names: "speed",
    isHarmless: (value) => typeof value === "number" || value === "standard" || value === "normal",
  },
  { why: "it has a price of its own; leave it out", names: "inference_geo performance_config" },
  { why: "only text is made here", names: "modalities", isHarmless: isTextOnly },
  {
    why: MODEL,
    names:
      "model models model_list fallbacks fallback_models context_window_fallbacks content_policy_fallbacks route router " +
      "preset engine deployment_id model_id model_name model_path user_config model_config " +
      "lora loras lora_path lora_paths lora_name lora_request lora_adapter lora_weights adapter_id adapter_source",
  },
  {
    why: HOST,
    names:
      "api_base base_url api_type api_version custom_llm_provider provider kv_transfer_params bootstrap_host " +
      "bootstrap_port bootstrap_room data_sources region_name organization",
  },
  { why: "the upstream's credential is the operator's", names: "api_key api_token" },
  { why: "headers are not passed on", names: "extra_headers headers extra_query", isHarmless: isEmptyObject },
  {
    why: "some engines read its fields in place of those outside; write them outside",
    names: "extra_body sampling_params generation_config",
    isHarmless: isEmptyObject,
  },
  {
    why: "the order and the names of calls are the gateway's",
    names: "priority request_id rid id_slot slot_id",
    isHarmless: isOneOf(0, -1),
  },
  { why: "it runs code at the engine", names: "custom_logit_processor logits_processors" },
  {
    why: "answers are not deferred",
    names: "background deferred callback callback_url webhook webhook_url webhooks notify_url",
  },
  {
    why: "stored conversations are not available; send previous_response_id or the messages themselves",
    names: "conversation conversation_id thread thread_id assistant_id session_params",
  },
  {
    why: "the one response that can be continued is named at the top of POST /v1/responses",
    names: "previous_response_id",
  },
  {
    why: "stored files are not available; send the content itself",
    names: "file_id file_ids upload_id image_file_id attachments",
  },
  {
    why: "stored objects are not available; send the content itself",
    names:
      "vector_store_id vector_store_ids container container_id prompt_id cached_content approval_request_id skill_id " +
      "comparison_response_id",
  },
  { why: "only responses are stored; leave it out", names: "store" },
  {
    why: "another model would judge the call, at a price that is not held",
    names: "moderation",
    isHarmless: isOneOf("auto", "low"),
  },
  {
    why: "the service would read the conversation again to shorten it, which is not held",
    names: "context_management",
  },
  { why: "it is no field of any endpoint", names: "__proto__" },
];

export const REFUSED: ReadonlyMap<string, RefusedField> = new Map(
  GROUPS.flatMap(({ names, ...field }) => names.split(" ").map((name) => [name, field] as const)),
);

/** Settings of routers (LiteLLM reads them from bodies): credentials, hosts, logging targets. */
const SETTINGS = /^(?:aws|azure|vertex|litellm|langfuse|langsmith|watsonx|sagemaker|oci)[_-]/i;
const OPERATORS: RefusedField = { why: HOST };

export const isProto = (name: string): boolean => name === "__proto__";

/** The entry for a name in its exact spelling; undefined if it is not listed. */
export const refusedField = (name: string): RefusedField | undefined =>
  REFUSED.get(name) ?? (SETTINGS.test(name) ? OPERATORS : undefined);

const NOTHING_STREAMED = "nothing is streamed here, the answer comes whole; leave it out";

/** For endpoints whose answer is never streamed. */
export const STREAMS: ReadonlyMap<string, RefusedField> = listed("stream", { why: NOTHING_STREAMED });

/** For the endpoint where one recording is measured. */
export const MORE_RECORDINGS = listed("known_speaker_references", { why: "only `file` is measured and charged" });

const MADE_ONCE = "one image is made per call";

/** For endpoints where exactly one image is made and paid for. */
export const MORE_IMAGES: ReadonlyMap<string, RefusedField> = new Map([
  ...STREAMS,
  ...listed(
    "num_images n_images max_images image_count number_of_images num_outputs num_images_per_prompt batch_size batch_count " +
      "n_iter num_samples n_samples samples sample_count count",
    { why: MADE_ONCE, isHarmless: isOne },
  ),
  ...listed("sequential_image_generation", { why: MADE_ONCE, isHarmless: isOneOf("disabled") }),
  ...listed("sequential_image_generation_options", { why: MADE_ONCE, isHarmless: isEmptyObject }),
  ...listed("frame_count frame_duration_ms", { why: "one still image is made per call", isHarmless: isOne }),
  ...listed("output_format", {
    why: "one still image is made per call: send png, jpeg or webp",
    isHarmless: isOneOf("png", "jpeg", "webp"),
  }),
  ...listed("svg", { why: MODEL }),
  ...listed("partial_images", { why: NOTHING_STREAMED, isHarmless: isOneOf(0) }),
  // Here it means the image's background.
  ...listed("background", { why: "answers are not deferred", isHarmless: isOneOf("auto", "transparent", "opaque") }),
]);

const IN_PLACE_OF = "it takes the place of what is counted";

/** Fields that some engines read instead of `input` or `documents`, with parts that no bound counts. */
export const OTHER_INPUT = listed("messages inputs input_ids", { why: IN_PLACE_OF });

/** The same for a conversation's messages: engines answer a list of prompts one by one. */
export const OTHER_PROMPTS: ReadonlyMap<string, RefusedField> = new Map([
  ...listed("inputs input_ids prompts prompt_ids prompt_token_ids prompt_embeds input_embeds", { why: IN_PLACE_OF }),
  ...listed("prompt", { why: IN_PLACE_OF, isHarmless: (value) => !Array.isArray(value) }),
]);

/**
 * Synonyms of the output cap, refused except for the endpoint's own: the hold was made for the cap in that field, and
 * the cap is sent only there.
 */
export const outputCaps = (own: string): ReadonlyMap<string, RefusedField> =>
  listed(
    "max_tokens max_completion_tokens max_output_tokens max_new_tokens max_tokens_to_sample max_gen_len " +
      "max_generated_tokens max_length n_predict num_predict",
    { why: `the output cap is \`${own}\`` },
  );

/** Whether a refused field has no effect with this value, and so passes: SDKs send null, false or empty lists. */
export function asksForNothing(field: RefusedField, value: unknown): boolean {
  if (value === null || value === false || value === undefined) return true;
  if (Array.isArray(value) && value.length === 0) return true;
  return field.isHarmless?.(value) ?? false;
}

/** The same for the text of a form field. */
export function textAsksForNothing(field: RefusedField, text: string): boolean {
  const trimmed = text.trim();
  if (["", "null", "false", "[]"].includes(trimmed)) return true;
  const number = Number(trimmed);
  const values = Number.isFinite(number) ? [trimmed, number] : [trimmed];
  return values.some((value) => field.isHarmless?.(value) ?? false);
}
