/** Calls of the gateway's API with the session. Paths are those of the API; the session stands in place of a key. */
import { signal } from "@preact/signals";

export type Session =
  | {
      readonly kind: "operator";
      readonly id: string;
      readonly name: string;
      readonly role: OperatorRole;
      readonly expires_at: string;
    }
  | {
      readonly kind: "tenant";
      readonly account: string;
      readonly account_name: string;
      readonly id: string;
      readonly name: string;
      readonly role: "owner" | "admin" | "member";
      readonly scopes: readonly string[];
      readonly expires_at: string;
    };
type OperatorRole = "owner" | "finance" | "support" | "read";

/** Undefined until the gateway was asked; null: nobody is signed in. */
export const session = signal<Session | null | undefined>(undefined);
/** Why the last session ended, for the page that asks to sign in. */
export const endedBecause = signal<string | null>(null);
/** Why nobody knows who is signed in. */
export const sessionFault = signal<Error | undefined>(undefined);

/** An answer that is not 2xx, in the API's own words. */
export class Refused extends Error {
  readonly status: number;
  readonly code: string;
  readonly body: unknown;

  constructor(status: number, body: unknown) {
    const error = (body as { error?: unknown } | null)?.error;
    const { message, code } = (typeof error === "object" && error !== null ? error : {}) as Record<string, unknown>;
    super(
      typeof message === "string" ? message : typeof error === "string" ? error : `The gateway answered ${status}.`,
    );
    this.status = status;
    this.code = typeof code === "string" ? code : "";
    this.body = body;
  }
}

export const apiUrl = (path: string): string => `/console/api${path}`;

export type Query = Readonly<Record<string, string | number | undefined | null>>;

/** A path with its query; what is empty is left out. */
export function withQuery(path: string, query: Query): string {
  const given = Object.entries(query).flatMap(([name, value]) =>
    value === undefined || value === null || value === "" ? [] : [[name, String(value)]],
  );
  return given.length > 0 ? `${path}?${new URLSearchParams(given)}` : path;
}

const UNREACHED = "The gateway cannot be reached. Is it running, and are you online?";
const CUT = "The gateway's answer broke off. Look whether what you asked for is done, then try again.";
const LATE = "The gateway has not answered in two minutes. It may be busy; try again.";
/** An audit reads a whole ledger, and nothing else takes as long. */
const LONGEST_READ_MS = 120_000;

/** Any status. A dead session ends here, whichever page asked. */
export async function send(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<Response> {
  const response = await fetch(apiUrl(path), {
    method,
    ...(body !== undefined && { headers: { "content-type": "application/json" }, body: JSON.stringify(body) }),
    ...(signal && { signal }),
  }).catch((error: unknown) => {
    throw notAnswered(error, signal, UNREACHED);
  });
  if (response.status === 401 && session.value) {
    endedBecause.value = "Your session has ended: you signed out, its key was revoked, or eight hours are over.";
    session.value = null;
  }
  return response;
}

/** What the page says where no whole answer came; an abort of its own stays one. */
export function notAnswered(error: unknown, signal: AbortSignal | undefined, otherwise = CUT): unknown {
  if (error instanceof DOMException && error.name === "TimeoutError") return new Refused(0, { error: LATE });
  return signal?.aborted ? error : new Refused(0, { error: otherwise });
}

/** Throws `Refused` on anything but 2xx. */
export async function api<Body>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<Body> {
  const late = method === "GET" ? [AbortSignal.timeout(LONGEST_READ_MS)] : [];
  const stop = AbortSignal.any([...(signal ? [signal] : []), ...late]);
  const response = await send(method, path, body, stop);
  let json: unknown = null;
  try {
    const text = await response.text();
    if (text && response.headers.get("content-type")?.includes("json")) json = JSON.parse(text);
  } catch (error) {
    throw notAnswered(error, stop);
  }
  if (response.ok) return json as Body;
  const refused = new Refused(response.status, json);
  // Another tab has signed in as somebody else.
  if (refused.code === "not_in_this_session") void loadSession();
  throw refused;
}
export const get = <Body>(path: string, query: Query = {}, signal?: AbortSignal): Promise<Body> =>
  api<Body>("GET", withQuery(path, query), undefined, signal);

export interface Page<Row> {
  readonly data: readonly Row[];
  readonly next_cursor: string | null;
}

/** Every row of a list, page by page, up to `most`. */
export async function all<Row>(path: string, query: Query = {}, most = 2_000, signal?: AbortSignal): Promise<Row[]> {
  const rows: Row[] = [];
  for (let cursor: string | null = ""; cursor !== null && rows.length < most; ) {
    const page: Page<Row> = await get(path, { limit: Math.min(1_000, most), ...query, cursor }, signal);
    rows.push(...page.data);
    cursor = page.next_cursor;
  }
  return rows;
}

export const part = encodeURIComponent;

interface SessionAnswer {
  readonly session: Session | null;
}

export async function loadSession(): Promise<void> {
  sessionFault.value = undefined;
  try {
    session.value = (await api<SessionAnswer>("GET", "/session")).session;
  } catch (error) {
    session.value = undefined;
    sessionFault.value = error as Error;
  }
}

/** A browser has one cookie: who signs in or out in one tab does so in all of them. */
const tabs = new BroadcastChannel("tollgate-session");
tabs.onmessage = loadSession;
// A page that the back button brings back as it was may be of a session that has ended.
addEventListener("pageshow", ({ persisted }) => persisted && loadSession());

export async function signIn(key: string): Promise<void> {
  session.value = (await api<SessionAnswer>("POST", "/session", { key })).session;
  endedBecause.value = null;
  tabs.postMessage("in");
}

export async function signOut(): Promise<void> {
  await api("DELETE", "/session");
  session.value = null;
  tabs.postMessage("out");
}
