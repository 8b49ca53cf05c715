/** How many tokens a job may use; the upper end is held. */
export interface Estimate {
  readonly minTokens: number;
  readonly maxTokens: number;
}
