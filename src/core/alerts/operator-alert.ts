import type { AccountId } from "../ids.ts";
import type { Alert, News } from "./alert.ts";

/** An alert to the operator. Its name makes its id, so telling it twice makes one alert. An id has no dots. */
export const operatorAlert = (name: string, news: News, nowMs: number, account: AccountId | null = null): Alert =>
  ({ id: `evt_${name.replaceAll(".", "~")}`, account, atMs: nowMs, ...news }) as Alert;
