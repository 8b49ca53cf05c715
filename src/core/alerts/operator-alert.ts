import type { AccountId } from "../ids.ts";
import type { Alert, News } from "./alert.ts";

/** An alert of the operator's. Its name makes it the only one: told again, it is the same. An id has no dots. */
export const operatorAlert = (name: string, news: News, nowMs: number, account: AccountId | null = null): Alert =>
  ({ id: `evt_${name.replaceAll(".", "~")}`, account, atMs: nowMs, ...news }) as Alert;
