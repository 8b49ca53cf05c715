/** LlamaIndex: an answer, a stream and embeddings. */
import { OpenAI, OpenAIEmbedding } from "@llamaindex/openai";

const { BASE_URL: baseURL, API_KEY: apiKey, MODEL: model, EMBEDDING_MODEL } = process.env;
const llm = new OpenAI({ model, apiKey, baseURL });
const messages = [{ role: "user", content: "What is the weather in Rome?" }];
const { message } = await llm.chat({ messages });
let streamed = "";
for await (const { delta } of await llm.chat({ messages, stream: true })) streamed += delta;
const embedding = new OpenAIEmbedding({ model: EMBEDDING_MODEL, apiKey, baseURL });
const vectors = await embedding.getTextEmbeddings(["one", "two words"]);
console.log(JSON.stringify({ answer: message.content, streamed, lengths: vectors.map(({ length }) => length) }));
