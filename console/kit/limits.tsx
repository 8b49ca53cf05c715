/** Limits in forms, and how much of each is used. */

import type { Field, Typed } from "./dialog.tsx";
import { count, named, time, usd, words } from "./format.ts";
import { Bar } from "./notices.tsx";
import type { Limits, Schemas } from "./types.ts";

const NUMBERS = [
  ["rpm_limit", "Requests a minute"],
  ["tpm_limit", "Tokens a minute"],
  ["rpd_limit", "Requests a day"],
  ["max_parallel_requests", "Calls at once"],
  ["max_budget", "Budget, USD"],
] as const;

export const limitFields = (of?: Partial<Limits>): Field[] => [
  ...NUMBERS.map(
    ([name, label]): Field => ({ name, label, type: "number", value: of?.[name]?.toString(), hint: "Empty: no limit" }),
  ),
  {
    name: "budget_duration",
    label: "The budget is for",
    value: of?.budget_duration ?? "month",
    options: [
      ["day", "a day (UTC)"],
      ["week", "a week"],
      ["month", "a month"],
      ["total", "all time"],
    ],
  },
];

/** For a body; an empty field is no limit. */
export const limitsTyped = (typed: Typed): Record<string, number | string | null> => ({
  ...Object.fromEntries(
    NUMBERS.map(([name]) => [
      name,
      typed[name] ? (name === "max_budget" ? (typed[name] ?? null) : Number(typed[name])) : null,
    ]),
  ),
  budget_duration: typed.budget_duration ?? "total",
});

const shownAs = (limit: string) => (limit === "max_budget" ? usd : count);

export function LevelBars({ level }: { level: Schemas["Level"] }) {
  return (
    <div class="level">
      <h3>
        {words(level.level)} <span class="quiet">{level.level === "account" ? "" : named(level.name)}</span>
      </h3>
      {level.limits.length === 0 && <p class="quiet">No limit is set.</p>}
      {level.limits.map(({ limit, used, allowed, left, frees_at }) => (
        <Bar
          key={limit}
          label={words(limit)}
          used={used}
          allowed={allowed}
          text={`${shownAs(limit)(used)} of ${shownAs(limit)(allowed)}${left === 0 && frees_at ? `, frees ${time(frees_at)}` : ""}`}
        />
      ))}
    </div>
  );
}
