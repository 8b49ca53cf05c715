/**
 * Where the API's documents say that the caller's own data stand: JSON schemas with all their keywords, arguments of tool
 * calls, metadata. Names there are the caller's, so they are not searched, `__proto__` apart. Only these places, from the
 * top of the body: an object elsewhere that looks like one of them is read as parameters.
 */
const METADATA = "metadata";

export const CHAT_DATA = [
  METADATA,
  "logit_bias",
  "documents",
  "tools[].function.parameters",
  "tools[].custom.format",
  "functions[].parameters",
  "response_format.json_schema.schema",
  "response_format.schema",
  "response_format.value",
  "response_format.format",
  "response_format.structures[].schema",
  "json_schema",
  "guided_json",
  "structured_outputs.json",
  "messages[].annotations",
  "messages[].function_call.arguments",
  "messages[].tool_calls[].function.arguments",
  "messages[].tool_calls[].custom.input",
] as const;

export const RESPONSES_DATA = [
  METADATA,
  "tools[].parameters",
  "tools[].format",
  "text.format.schema",
  "input[].arguments",
  "input[].content[].annotations",
] as const;

export const OTHER_DATA = [METADATA] as const;
