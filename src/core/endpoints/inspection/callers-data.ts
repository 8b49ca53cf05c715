/**
 * Places that the API documents as the caller's own data: JSON schemas with all their keywords, arguments of tool
 * calls, metadata. Names in there are the caller's, so only `__proto__` is searched for. The places are paths from the
 * top of the body: a similar object elsewhere is checked as parameters.
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
  "client_metadata",
  "tools[].parameters",
  "tools[].output_schema",
  "tools[].format",
  "tools[].tools[].parameters",
  "tools[].tools[].output_schema",
  "tools[].tools[].format",
  "text.format.schema",
  "input[].arguments",
  "input[].action.env",
  "input[].content[].annotations",
] as const;

export const OTHER_DATA = [METADATA] as const;
