/**
 * The console's session: a sealed cookie that holds a digest, never a key. It only says who asks: each call looks the
 * operator up, or asks the account object, so a revoked token or key ends its session at once.
 */
import { equalInConstantTime } from "../../core/account/api-key.ts";
import { FIRST_OWNER, type Operator } from "../../core/account/operators.ts";
import { toHex } from "../../core/formats/bytes.ts";
import { type AccountNumber, asId, type KeyDigest } from "../../core/ids.ts";
import type { SignedIn } from "../../gateway/ports.ts";
import type { PlatformPorts } from "../../platform/ports.ts";
import { adminTokenOf, operatorWith } from "../operator/auth.ts";
import { type CookiePlace, cookieIn, SESSION_SECONDS } from "./cookie.ts";

export type SessionEnv = Env & { readonly ports: PlatformPorts };

/** Who holds a session, as the cookie says. `first`: of `ADMIN_TOKEN`. */
export type Holder =
  | { readonly kind: "first" | "operator"; readonly digest: string }
  | ({ readonly kind: "key" } & SignedIn);

/** Who asks, found anew at each call. */
export type Session = { readonly expiresAtMs: number } & (
  | { readonly kind: "operator"; readonly operator: Operator }
  | { readonly kind: "tenant"; readonly signedIn: SignedIn }
);

/** What stands for the secret `ADMIN_TOKEN` in a cookie: another secret, another digest. */
export const firstDigest = async (token: string, { secrets }: PlatformPorts): Promise<string> =>
  toHex(await secrets.hmac(`ADMIN_TOKEN ${token}`));

export function sealHolder(holder: Holder, { origin }: CookiePlace, { secrets, now }: PlatformPorts): Promise<string> {
  const number = holder.kind === "key" ? holder.number : 0;
  return secrets.sealSession(origin, [now() + SESSION_SECONDS * 1_000, holder.kind, holder.digest, number].join(" "));
}

/** Undefined: no session, or one that has ended. */
export async function openSession(
  request: Request,
  place: CookiePlace,
  env: SessionEnv,
  context: Pick<ExecutionContext, "waitUntil">,
): Promise<Session | undefined> {
  const { ports } = env;
  const sealed = cookieIn(request.headers, place);
  const text = sealed && (await ports.secrets.openSession(place.origin, sealed));
  if (!text) return undefined;
  const [expires, kind, digest = "", number] = text.split(" ");
  const expiresAtMs = Number(expires);
  if (!(expiresAtMs > ports.now())) return undefined;
  if (kind === "key") {
    const signedIn = { digest: asId<KeyDigest>(digest), number: asId<AccountNumber>(Number(number)) };
    return { kind: "tenant", signedIn, expiresAtMs };
  }
  const operator = kind === "first" ? await firstOwner(digest, env) : await operatorWith(env, context, digest);
  return operator && { kind: "operator", operator, expiresAtMs };
}

/** As long as the secret is the one that signed in. */
async function firstOwner(digest: string, env: SessionEnv): Promise<Operator | undefined> {
  const token = adminTokenOf(env);
  const current = token === undefined ? "" : await firstDigest(token, env.ports);
  return equalInConstantTime(current, digest) ? FIRST_OWNER : undefined;
}
