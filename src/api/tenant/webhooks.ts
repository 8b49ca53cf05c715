/** `/account/webhooks`: an account's owners are told of what happens in it. */
import { TENANT_ALERTS } from "../../core/alerts/alert.ts";
import { Problem } from "../kit/problem.ts";
import { addWebhooks } from "../kit/webhooks.ts";
import type { SelfServiceRoutes } from "./self-service.ts";

/** Webhooks of one account. */
const MOST_WEBHOOKS = 5;

export const addSelfWebhooks = (api: SelfServiceRoutes): void =>
  addWebhooks(api, {
    base: "/account/webhooks",
    events: TENANT_ALERTS,
    most: MOST_WEBHOOKS,
    refusals: [403],
    holderOf: ({ standing: { account, key }, context }) => {
      if (key.role !== "owner" || key.team !== null) {
        throw new Problem(
          403,
          "role_not_allowed",
          "Webhooks are for account owners. Use an owner's key without a team.",
        );
      }
      return { account: account.id, context };
    },
  });
