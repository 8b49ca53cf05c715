/** What a job may come to, in tokens; the upper end is what is held. */
export interface Estimate {
  readonly minTokens: number;
  readonly maxTokens: number;
}
