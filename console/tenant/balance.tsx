/** Money and limits: what is left, what was booked, and the month's statement for owners. */
import { get, session } from "../kit/api.ts";
import { count, time, usd, words } from "../kit/format.ts";
import { Head } from "../kit/frame.tsx";
import { useLoad } from "../kit/load.ts";
import { Bar, Figures, Ready } from "../kit/notices.tsx";
import { StatementOf } from "../kit/statement.tsx";
import type { AccountState, LevelLimits } from "../kit/types.ts";
import { Transactions } from "./transactions.tsx";

export function Balance() {
  const loaded = useLoad((signal) => get<AccountState>("/account", {}, signal), [], 15_000);
  const owner = session.value?.role === "owner";
  return (
    <>
      <Head title="Balance and limits" />
      <Ready of={loaded}>
        {(account) => (
          <>
            <Figures
              label="Money"
              of={[
                {
                  label: "Balance",
                  value: usd(account.balance_usd),
                  kind: account.balance_usd <= 0 ? "bad" : undefined,
                },
                { label: "Held for calls that run", value: usd(account.held_usd) },
                {
                  label: "Available now",
                  value: usd(account.available_usd),
                  kind: account.available_usd <= 0 ? "bad" : undefined,
                },
              ]}
            />
            {account.available_usd <= 0 && (
              <p class="fault">Calls are refused with 402 until your operator books a credit.</p>
            )}
            <h2>Limits, and what is used</h2>
            <div class="levels">
              <Level name="This key" level={account.limits.key} />
              {account.limits.team && <Level name="Its team" level={account.limits.team} />}
              <Level name="The account" level={account.limits.account} />
            </div>
          </>
        )}
      </Ready>
      {owner ? (
        <>
          <h2>Statement</h2>
          <StatementOf path="/account/statement" />
          <h2>What was booked</h2>
          <Transactions />
        </>
      ) : (
        <p class="quiet">Statements are for owners. Sign in with an owner's key to see them.</p>
      )}
    </>
  );
}

const COUNTS = [
  ["rpm_limit", "rpm_remaining"],
  ["tpm_limit", "tpm_remaining"],
  ["rpd_limit", "rpd_remaining"],
  ["max_parallel_requests", "parallel_remaining"],
] as const;

function Level({ name, level }: { name: string; level: LevelLimits }) {
  const bars = COUNTS.flatMap(([limit, left]) => {
    const [allowed, remaining] = [level[limit], level[left]];
    return allowed === null || remaining === null ? [] : [{ limit, allowed, used: allowed - remaining }];
  });
  const { max_budget: budget, budget_remaining: left, budget_resets_at: resets } = level;
  return (
    <div class="level">
      <h3>{name}</h3>
      {bars.map(({ limit, allowed, used }) => (
        <Bar
          key={limit}
          label={words(limit)}
          used={used}
          allowed={allowed}
          text={`${count(used)} of ${count(allowed)}`}
        />
      ))}
      {budget !== null && left !== null && (
        <Bar
          label={`budget, ${level.budget_duration}`}
          used={budget - left}
          allowed={budget}
          text={`${usd(budget - left)} of ${usd(budget)}${resets ? `, renews ${time(resets)}` : ""}`}
        />
      )}
      {bars.length === 0 && budget === null && <p class="quiet">No limit is set.</p>}
    </div>
  );
}
