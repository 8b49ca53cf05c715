/** Words, pictures and sound that every client sends. */
import { wav } from "../support/audio.ts";

export const QUESTION = "What is the weather in Rome?";
const PIXEL_BASE64 = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
export const PIXEL = `data:image/png;base64,${PIXEL_BASE64}`;
export const PIXEL_BYTES = Uint8Array.from(Buffer.from(PIXEL_BASE64, "base64"));
export const RECORDING = wav({ ms: 1_500 });

/** The words that begin each text of the service's chat models. */
export const SPOKEN = /^\[[\w-]+7b@[\w-]+\] \S+/;
