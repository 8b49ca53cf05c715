/** What a call used, in the units that the service bills. Always true, whatever a fault makes the answer report. */
export interface Usage {
  readonly input_tokens?: number;
  /** A part of `input_tokens`. */
  readonly cached_input_tokens?: number;
  readonly output_tokens?: number;
  /** Seconds made, to the millisecond. */
  readonly audio_seconds?: number;
  readonly transcribed_seconds?: number;
  readonly images?: number;
  readonly requests?: number;
  readonly video_tokens_720p?: number;
  readonly video_tokens_1080p?: number;
  readonly video_tokens_4k?: number;
  readonly video_tokens_720p_reference?: number;
  readonly video_tokens_1080p_reference?: number;
  readonly video_tokens_4k_reference?: number;
}
