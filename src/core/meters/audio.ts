/**
 * Seconds of audio, produced or transcribed.
 *
 * Produced audio is bounded by the text to speak and measured from the bytes that pass. Transcribed audio is measured
 * before admission, so its bound and its charge are the same.
 */

import { AudioMeasure } from "../formats/audio/measure.ts";
import { asObject } from "../formats/json-fields.ts";
import type { Reading } from "../pricing/usage.ts";
import type { AnswerReader, BytesReader, JsonReader, Meter } from "./meter.ts";

/** The longest duration that a text can have (docs/design.md, section 4): a lead, and a time per character, ms. */
const LEAD_MS = 5_000;
const LONGEST_CHARACTER_MS = 400;
/** What own count assumes for one character, ms: fast speech, about 16 characters a second. */
const OWN_CHARACTER_MS = 60;

/** What the answer speaks. */
export interface Spoken {
  /** Unicode code points. */
  readonly characters: number;
  /** 1 is normal. */
  readonly speed: number;
  /** Additional silence that the caller asked for, ms (0). */
  readonly paddingMs?: number;
}

export const charactersOf = (text: string): number => {
  let count = 0;
  for (const _ of text) count++;
  return count;
};

/**
 * Charges `audio_seconds` for the audio that passed. If its format cannot be measured, or the client left before the
 * first sound, own count settles the call: 0.06 s per character, divided by the speed, and the silence asked for.
 */
export function audioMade<Body>(spokenOf: (body: Body) => Spoken): Meter<Body> {
  return {
    bound: (body, { recordingMs }) => {
      const { characters, speed, paddingMs = 0 } = spokenOf(body);
      const spokenMs = LEAD_MS + Math.ceil((characters * LONGEST_CHARACTER_MS) / speed);
      return { fixed: { audio_seconds: spokenMs + Math.ceil(paddingMs) + (recordingMs ?? 0) } };
    },
    reader: (body) => {
      const { characters, speed, paddingMs = 0 } = spokenOf(body);
      return audioReader(Math.round((characters * OWN_CHARACTER_MS) / speed + paddingMs));
    },
  };
}

function audioReader(ownCountMs: number): BytesReader {
  let measure: AudioMeasure | undefined;
  let left = false;
  const reading = (): Reading => {
    const measuredMs = measure?.ms ?? null;
    // The service may have spoken all of it by then. A whole answer without sound costs nothing.
    const leftSilent = left && measuredMs === 0;
    if (measuredMs === null || leftSilent) return { source: "own_count", usage: { audio_seconds: ownCountMs } };
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
    left: () => {
      left = true;
    },
    reading,
  };
}

/** The longest recording that is transcribed (contract, "Limits"), ms. */
export const LONGEST_RECORDING_MS = 30 * 60 * 1000;

/** Charges `transcribed_seconds` for the whole recording, whatever the transcript's format. */
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
