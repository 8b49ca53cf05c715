/** What each reason of a call that was not served well means to an operator, and what can be done. */

const REASONS: Readonly<Record<string, string>> = {
  no_key: "No key was sent.",
  bad_key: "The key is unknown, revoked, expired or blocked. 'tollgate key find' shows whose it is.",
  scope_missing: "The key lacks the scope of this API: make one that has it.",
  role_too_low: "The key's role may not make this call: use an owner's or an admin's.",
  not_your_instance: "The instance belongs to another account, or is not there.",
  invalid_request: "The request's body or fields are wrong: the tenant was told which.",
  too_large: "The body is larger than is taken.",
  unknown_route: "There is no such path.",
  model_not_found: "The account may call no model of this name: make an alias or a model, or correct the name.",
  model_not_priced: "The model has no price for a unit that the call would use: 'tollgate price show' has its rows.",
  model_not_allowed: "The key's list of models does not have this one.",
  id_not_found: "The response or job is not the account's, or no longer kept.",
  rate_limit: "A limit of the key, its team or the account had no room. 'tollgate limits <account>' shows which.",
  named_limit: "A limit of this kind of call had no room.",
  budget_spent: "A budget of the key, its team or the account is spent. 'tollgate limits <account>' shows which.",
  no_credit: "The balance does not cover what the call may cost. 'tollgate credit' tops it up.",
  instance_unpaid: "The instance's hour is not paid: top up the balance.",
  busy: "This isolate had no room for another large body: it passes.",
  unpaid_work: "The account sent much that was refused: it passes within a minute.",
  admission_unavailable: "The account's object could not be asked: it passes.",
  no_healthy_upstream: "No target could take the call. 'tollgate upstream list' shows how they do.",
  upstream_refused: "The upstream refused the request itself.",
  upstream_error: "The upstream failed. 'tollgate upstream health' shows its last errors.",
  upstream_timeout: "The upstream did not answer in time. 'tollgate upstream health' shows its times.",
  outcome_unknown: "The upstream may have created something and did not answer. It was not sent again.",
  idempotency: "The tenant's Idempotency-Key was used for something else, or its call still runs.",
  client_gone: "The client left before the end.",
  internal: "A defect of the gateway: the log has it under this id.",
};

/** Undefined: the reason is not known here. */
export const adviceOn = (reason: string | null): string | undefined =>
  reason !== null && Object.hasOwn(REASONS, reason) ? REASONS[reason] : undefined;
