/**
 * What all calls of the account object share: its rows and the settings of the Worker. Own fields are out of reach for
 * RPC.
 */
import { DurableObject } from "cloudflare:workers";
import { refused } from "../../core/outcome.ts";
import { LeaseWaits } from "./lease-waits.ts";
import { capsOf, livesOf } from "./settings.ts";
import { Store } from "./store.ts";

/** Nobody opened this account: its keys are unknown. */
export const NEVER_OPENED = refused({ kind: "bad_key", why: "unknown" });

export abstract class AccountStore extends DurableObject<Env> {
  protected readonly lives = livesOf(this.env);
  protected readonly caps = capsOf(this.env);
  protected readonly store = new Store(this.ctx.storage, this.lives);
  protected readonly leaseWaits = new LeaseWaits(this.store);
}
