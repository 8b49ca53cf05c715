/** An alert as its receivers get it: a Standard Webhooks message (standardwebhooks.com). */
import type { Alert } from "./alert.ts";

/** What was stored of an alert. */
export type StoredAlert = Pick<Alert, "id" | "account" | "atMs"> & { readonly type: string; readonly data: object };

export const messageBody = ({ type, account, atMs, data }: Omit<StoredAlert, "id">): string =>
  JSON.stringify({ type, timestamp: new Date(atMs).toISOString(), data: { account, ...data } });

/** What the secrets sign. */
export const signedText = (id: string, seconds: number, body: string): string => `${id}.${seconds}.${body}`;

export const SECRET_PREFIX = "whsec_";
