/** Cost of each unit in USD, and a price a quarter above it. */
export const at = (units: Record<string, number>): Record<string, { cost_usd: number; price_usd: number }> =>
  Object.fromEntries(
    Object.entries(units).map(([unit, cost]) => [
      unit,
      { cost_usd: cost, price_usd: Number((cost * 1.25).toFixed(9)) },
    ]),
  );
