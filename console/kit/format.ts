/** Figures and times as people read them. Times are UTC, as in reports and statements. */

const counts = new Intl.NumberFormat("en-US", { maximumFractionDigits: 3 });
const short = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });

export const count = (value: number): string => counts.format(value);
export const brief = (value: number): string => short.format(value);

/** All that is not zero of an amount, with two decimals at least. */
export function usd(value: number): string {
  const text = Math.abs(value)
    .toFixed(9)
    .replace(/0{1,7}$/, "");
  const [whole = "0", part = "00"] = text.split(".");
  return `${value < 0 ? "-" : ""}$${counts.format(Number(whole))}.${part.padEnd(2, "0")}`;
}
/** Of a figure at a glance: cents, or two digits of what is less. */
export function usdBrief(value: number): string {
  const size = Math.abs(value);
  if (size >= 10_000) return `${value < 0 ? "-" : ""}$${brief(size)}`;
  if (size >= 0.01 || size === 0) return `${value < 0 ? "-" : ""}$${size.toFixed(2)}`;
  return `${value < 0 ? "-" : ""}$${Number(size.toPrecision(2)).toFixed(Math.min(9, 1 - Math.floor(Math.log10(size))))}`;
}
export const percent = (value: number): string => `${(value * 100).toFixed(1)} %`;

export function ms(value: number | null): string {
  if (value === null) return "–";
  return value < 1_000 ? `${Math.round(value)} ms` : `${(value / 1_000).toFixed(value < 10_000 ? 2 : 1)} s`;
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
/** `22 Nov 10:03:11`, in UTC. */
export function time(iso: string | null): string {
  if (iso === null) return "–";
  const at = new Date(iso);
  return `${at.getUTCDate()} ${MONTHS[at.getUTCMonth()]} ${at.toISOString().slice(11, 19)}`;
}
export const day = (iso: string | null): string => (iso === null ? "–" : iso.slice(0, 10));

export function ago(iso: string | null, now = Date.now()): string {
  if (iso === null) return "never";
  const seconds = Math.round((now - Date.parse(iso)) / 1_000);
  const [size, unit] =
    Math.abs(seconds) < 90
      ? [1, "s"]
      : Math.abs(seconds) < 5_400
        ? [60, "min"]
        : Math.abs(seconds) < 172_800
          ? [3_600, "h"]
          : [86_400, "days"];
  const amount = Math.round(Math.abs(seconds) / (size as number));
  return seconds >= 0 ? `${amount} ${unit} ago` : `in ${amount} ${unit}`;
}
export function hours(value: number | null): string {
  if (value === null) return "–";
  return value < 48 ? `${value.toFixed(value < 10 ? 1 : 0)} h` : `${Math.round(value / 24)} days`;
}
/** `input_tokens` as words. */
export const words = (name: string): string => name.replaceAll("_", " ").replace("usd", "USD");
/**
 * What others chose as a name, with nothing in it that turns the text around or that nobody sees: as the command line
 * shows it.
 */
export const named = (text: string): string =>
  text.replace(UNSEEN, (character) => `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`);
const UNSEEN = /[\p{Cc}\p{Zl}\p{Zp}\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff]/gu;
