/** An account's plan: what it pays on top of cost. */
import { api } from "../kit/api.ts";
import { Form, Opens } from "../kit/dialog.tsx";
import type { Account } from "../kit/types.ts";

export const PlanForm = ({ account, path, onDone }: { account: Account; path: string; onDone(): void }) => (
  <Opens label="Plan" title="Plan" kind="plain">
    {(close) => (
      <Form
        fields={[
          {
            name: "markup_percent",
            label: "On top of cost, percent",
            type: "number",
            required: true,
            value: String(account.plan.markup_percent),
            hint: "Where the price book has no price of its own",
          },
          { name: "from", label: "From (UTC)", type: "datetime-local", hint: "Empty: now" },
          { name: "allow_loss", label: "Even where a target costs more than it brings", type: "checkbox" },
        ]}
        submit="Save"
        onSubmit={async ({ markup_percent, from, allow_loss }) => {
          const plan = {
            markup_percent: Number(markup_percent),
            overrides: account.plan.overrides,
            ...(from && { from: `${from}:00Z` }),
          };
          await api("PATCH", path, { plan, ...(allow_loss && { allow_loss: true }) });
          close();
          onDone();
        }}
      />
    )}
  </Opens>
);
