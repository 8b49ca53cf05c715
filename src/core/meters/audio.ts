/**
 * Seconds of audio, made or heard.
 *
 * Made: bounded by the text that is spoken, measured from the bytes that pass. Heard: the recording's true length, known
 * before admission; bound and charge are the same.
 */

import { AudioMeasure } from "../formats/audio/measure.ts";
import { asObject } from "../formats/json-fields.ts";
import type { Reading } from "../pricing/usage.ts";
import type { AnswerReader, BytesReader, JsonReader, Meter } from "./meter.ts";

/** The longest that a text can take (docs/design.md, section 4), ms. */
const LEAD_MS = 5_000;
const LONGEST_CHARACTER_MS = 400;
/** What own count assumes for one character, ms: fast speech, about 16 characters a second. */
const OWN_CHARACTER_MS = 60;

/** What an answer says. */
export interface Spoken {
  /** Unicode code points. */
  readonly characters: number;
  /** 1 is normal. */
  readonly speed: number;
  /** Silence that the caller asked for on top, ms (0). */
  readonly paddingMs?: number;
}

export const charactersOf = (text: string): number => {
  let count = 0;
  for (const _ of text) count++;
  return count;
};

/**
 * Charges `audio_seconds` for the audio that passed. Audio of a format that cannot be measured, and an answer that never
 * began because the client left, are settled from our own count: 0.06 s a character over the speed.
 */
export function audioMade<Body>(spokenOf: (body: Body) => Spoken): Meter<Body> {
  return {
    bound: (body, { recordingMs }) => {
      const { characters, speed, paddingMs = 0 } = spokenOf(body);
      const spokenMs = LEAD_MS + Math.ceil((characters * LONGEST_CHARACTER_MS) / speed);
      return { fixed: { audio_seconds: spokenMs + Math.ceil(paddingMs) + (recordingMs ?? 0) } };
    },
    reader: (body) => {
      const { characters, speed } = spokenOf(body);
      return audioReader(Math.round((characters * OWN_CHARACTER_MS) / speed));
    },
  };
}

function audioReader(ownCountMs: number): BytesReader {
  let measure: AudioMeasure | undefined;
  const reading = (): Reading => {
    const measuredMs = measure?.ms ?? null;
    if (measuredMs === null) return { source: "own_count", usage: { audio_seconds: ownCountMs } };
    return { source: "exact", usage: { audio_seconds: measuredMs } };
  };
  return {
    kind: "bytes",
    accepts(contentType) {
      if (!/^(audio\/|application\/octet-stream)/i.test(contentType)) return false;
      measure = new AudioMeasure(contentType);
      return true;
    },
    push: (chunk) => measure?.push(chunk),
    reading,
  };
}

/** The longest recording that is heard (contract, "Limits"), ms. */
export const LONGEST_RECORDING_MS = 30 * 60 * 1000;

/** Charges `transcribed_seconds` for the whole recording, however its transcript is written. */
export function audioHeard<Body>(isJson: (body: Body) => boolean): Meter<Body> {
  return {
    bound: (_, { recordingMs }) => ({ fixed: { transcribed_seconds: recordingMs ?? LONGEST_RECORDING_MS } }),
    reader: (body, { measured }) => {
      const usage = { transcribed_seconds: measured.recordingMs ?? LONGEST_RECORDING_MS };
      const reading = (): Reading => ({ source: "exact", usage });
      return isJson(body) ? transcriptReader(reading) : textReader(reading);
    },
  };
}

function transcriptReader(reading: () => Reading): JsonReader {
  return { kind: "json", read: (answer) => typeof asObject(answer)?.text === "string", reading };
}

function textReader(reading: () => Reading): AnswerReader {
  return {
    kind: "bytes",
    accepts: (contentType) => /^(text\/(?!event-stream)|application\/x-subrip)/i.test(contentType),
    push: () => undefined,
    reading,
  };
}
