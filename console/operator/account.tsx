/** One account: its state and limits, and behind tabs all that belongs to it. */
import { link } from "../kit/address.ts";
import { all, api, get, part } from "../kit/api.ts";
import { Confirm, Form, Opens } from "../kit/dialog.tsx";
import { day, usd, usdBrief } from "../kit/format.ts";
import { Head } from "../kit/frame.tsx";
import { Keys } from "../kit/keys.tsx";
import { LevelBars, limitFields, limitsTyped } from "../kit/limits.tsx";
import { type Loaded, useLoad } from "../kit/load.ts";
import { Act, Facts, Figures, Ready } from "../kit/notices.tsx";
import { StatementOf } from "../kit/statement.tsx";
import { Teams } from "../kit/teams.tsx";
import type { Account, Schemas } from "../kit/types.ts";
import { stateOf } from "./accounts.tsx";
import { Audited } from "./audit.tsx";
import { Ledger } from "./ledger.tsx";
import { PlanForm } from "./plan.tsx";

const TABS = [
  ["", "State"],
  ["keys", "Keys"],
  ["teams", "Teams"],
  ["ledger", "Ledger"],
  ["statement", "Statement"],
  ["audit", "Audit"],
] as const;

/** Nothing of one account stays on the page of another. */
export const AccountPage = ({ account = "", tab = "" }: { account?: string; tab?: string }) => (
  <Page key={account} id={account} tab={tab} />
);

function Page({ id, tab }: { id: string; tab: string }) {
  const path = `/admin/accounts/${part(id)}`;
  const loaded = useLoad((signal) => get<Account>(path, {}, signal), [path, tab]);
  return (
    <>
      <Head title={loaded.data?.name ?? id} coming={!loaded.data && !loaded.error}>
        <code>{id}</code>
        <a class="button plain" href={link("/calls", { account: id })}>
          Calls
        </a>
        <a class="button plain" href={link("", { account: id })}>
          Usage
        </a>
      </Head>
      <nav class="tabs" aria-label="Of this account">
        {TABS.map(([name, label]) => (
          <a
            key={name}
            href={link(`/accounts/${part(id)}${name && `/${name}`}`)}
            aria-current={name === tab ? "page" : undefined}
          >
            {label}
          </a>
        ))}
      </nav>
      <Ready of={loaded}>{(account) => <Tab tab={tab} account={account} path={path} loaded={loaded} />}</Ready>
    </>
  );
}

function Tab({ tab, account, path, loaded }: { tab: string; account: Account; path: string; loaded: Loaded<Account> }) {
  switch (tab) {
    case "keys":
      return <Keys root={path} account={account.id} />;
    case "teams":
      return <Teams root={path} />;
    case "ledger":
      return <Ledger path={path} onBooked={loaded.reload} account={account} />;
    case "statement":
      return <StatementOf path={`${path}/statement`} />;
    case "audit":
      return <Audited account={account.id} />;
    default:
      return <State account={account} path={path} reload={loaded.reload} />;
  }
}

function State({ account, path, reload }: { account: Account; path: string; reload(): void }) {
  const levels = useLoad((signal) => all<Schemas["Level"]>(`${path}/limits`, {}, 300, signal), [path], 15_000);
  const change = (body: object) => api("PATCH", path, body).then(reload);
  return (
    <>
      <Figures
        label="Money"
        of={[
          {
            label: "Balance",
            value: usdBrief(account.balance_usd),
            title: usd(account.balance_usd),
            kind: account.balance_usd <= 0 ? "bad" : undefined,
          },
          { label: "Held", value: usdBrief(account.held_usd), title: usd(account.held_usd) },
          { label: "Credit", value: account.bills_monthly ? usd(account.credit_limit_usd) : "none" },
          { label: "State", value: stateOf(account), kind: account.blocked ? "warn" : undefined },
        ]}
      />
      <div class="buttons">
        <Opens label="Limits" title="Limits of the account" kind="plain">
          {(close) => (
            <Form
              fields={limitFields(account)}
              submit="Save"
              onSubmit={(typed) => change(limitsTyped(typed)).then(close)}
            />
          )}
        </Opens>
        <PlanForm account={account} path={path} onDone={reload} />
        {account.blocked ? (
          <Act label="Unblock" run={() => change({ blocked: false })} />
        ) : (
          <Confirm
            label="Block"
            title={`Block ${account.name}?`}
            text="Every call of its keys is refused until you unblock it."
            run={() => change({ blocked: true })}
          />
        )}
      </div>
      <Facts
        of={[
          ["Plan", `cost and ${account.plan.markup_percent} %${overrides(account.plan.overrides)}`],
          [
            "Plan to come",
            account.next_plan ? `from ${day(account.next_plan.from)}: ${account.next_plan.markup_percent} %` : "none",
          ],
          ["Compute", account.compute_enabled ? `on, at ${account.compute_upstream ?? "no upstream yet"}` : "off"],
          [
            "When a client leaves",
            account.on_disconnect === "drain" ? "the stream is read on" : "the stream is stopped",
          ],
          ["Since", day(account.created_at)],
        ]}
      />
      <h2>Limits, and what is used</h2>
      <Ready of={levels}>
        {(found) => (
          <div class="levels">
            {found
              .filter(({ level, limits }) => level === "account" || limits.length > 0)
              .map((level) => (
                <LevelBars key={`${level.level} ${level.id}`} level={level} />
              ))}
          </div>
        )}
      </Ready>
    </>
  );
}

const overrides = (of: Account["plan"]["overrides"]): string => {
  const models = Object.keys(of);
  return models.length > 0 ? `, and prices of its own for ${models.join(", ")}` : "";
};
