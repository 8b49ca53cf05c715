/** Checks that what a body refers to exists: else 400 with the field. */

import { clipped } from "../../core/issue-words.ts";
import { findAccount } from "../../platform/d1/accounts.ts";
import { missingUpstreams } from "../../platform/d1/upstreams.ts";
import type { AdminContext } from "./context.ts";
import { invalid } from "./problem.ts";

/** `paramAt`: the name of the field with the upstream at this index. */
export async function requireUpstreams(
  context: AdminContext,
  named: readonly { readonly upstream: string }[],
  paramAt: (index: number) => string,
): Promise<void> {
  const missing = await missingUpstreams(
    context.books,
    named.map(({ upstream }) => upstream),
  );
  const index = named.findIndex(({ upstream }) => missing.includes(upstream));
  const first = named[index];
  if (!first) return;
  const param = paramAt(index);
  throw invalid(
    param,
    `\`${param}\` must name an upstream; there is no '${clipped(first.upstream)}'. PUT /admin/upstreams/... makes one.`,
  );
}

export async function requireAccount(context: AdminContext, account: string | null): Promise<void> {
  if (account === null) return;
  const row = await findAccount(context.books, account);
  if (!row || row.deleted)
    throw invalid("account", `\`account\` must name a live account; there is no '${clipped(account)}'.`);
}
