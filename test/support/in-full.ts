/** True under `npm run proof`, which runs in full what `npm test` does in short. */
export const IN_FULL = process.env.PROOF === "1";

/** All of a table in full; in short each `every`th row of it, always the same ones. */
export const partOf = <Row>(rows: readonly Row[], every: number): readonly Row[] =>
  rows.filter((_, at) => IN_FULL || at % every === 0);
