/** The rows of a list, up to a bound. */
export async function collected<Row>(rows: AsyncIterable<Row>, most = 10_000): Promise<Row[]> {
  const all: Row[] = [];
  for await (const row of rows) {
    all.push(row);
    if (all.length >= most) break;
  }
  return all;
}

/** Undefined where the role of the token may not read it. */
export async function ifAllowed<Answer>(asked: Promise<Answer>): Promise<Answer | undefined> {
  try {
    return await asked;
  } catch (error) {
    if (error instanceof Error && "status" in error && error.status === 403) return undefined;
    throw error;
  }
}
