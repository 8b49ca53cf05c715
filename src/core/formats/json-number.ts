/**
 * The grammar of a JSON number, as states and what leads from one to the next. `JsonScan` numbers its other states
 * below these.
 */
// States inside a number. In those from `ZERO` to `POWER` it may end.
export const MINUS = 13;
const POINT = 14;
const EXPONENT = 15;
const EXPONENT_SIGN = 16;
export const ZERO = 17;
export const INTEGER = 18;
const FRACTION = 19;
const POWER = 20;

export const isDigit = (byte: number): boolean => byte >= 0x30 && byte <= 0x39;

/** The state after another digit; undefined if the digit is not allowed. */
export function afterDigit(state: number, digit: number): number | undefined {
  if (state === INTEGER || state === FRACTION || state === POWER) return state;
  if (state === MINUS) return digit === 0x30 ? ZERO : INTEGER;
  if (state === POINT) return FRACTION;
  return state === ZERO ? undefined : POWER;
}

export function afterSign(state: number, byte: number): number | undefined {
  if (byte === 0x2e) return state === ZERO || state === INTEGER ? POINT : undefined;
  if ((byte | 0x20) === 0x65) return state >= ZERO && state !== POWER ? EXPONENT : undefined;
  if (byte === 0x2b || byte === 0x2d) return state === EXPONENT ? EXPONENT_SIGN : undefined;
  return undefined;
}
