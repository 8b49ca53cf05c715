/**
 * Calls an account's object for a client that waits. Reads are retried once if a stub breaks, changes are sent once,
 * and a late answer is a failure. What this isolate admitted out of leases is told first: see gateway/leases.ts.
 */
import type { AccountService } from "../../core/account/account-service.ts";
import type { Actor, KeyAction } from "../../core/account/permissions.ts";
import type { ArchivedLedger } from "../../core/archive/archived-ledger.ts";
import type { ComputeAccount } from "../../core/compute/calls.ts";
import type { AccountNumber } from "../../core/ids.ts";
import { ask, askOnce } from "../../gateway/account-client.ts";
import { returnLeases } from "../../gateway/leases.ts";
import type { PlatformPorts } from "../../platform/ports.ts";

/** An audit gets longer, ms: it reads the whole ledger in slices between other calls. */
const LONGEST_AUDIT_MS = 60_000;

/** The methods of an account object that the API calls. */
export type AccountObject = AccountService &
  ArchivedLedger &
  Pick<ComputeAccount, "computeState" | "stopCompute" | "moveSeat" | "knownTags" | "beginHourly" | "endHourly">;

/** `failed`: throws its own error in place of one from the object or its stub, or of a timeout. */
export function accountInTime(
  ports: Pick<PlatformPorts, "account" | "leases" | "now">,
  number: AccountNumber,
  failed: (error: unknown) => never = rethrow,
): AccountObject {
  type Question<Answer> = (object: AccountObject) => Promise<Answer>;
  const read = async <Answer>(question: Question<Answer>, withinMs?: number) => {
    await returnLeases(number, ports);
    return ask<AccountObject, Answer>(ports, number, question, withinMs).catch(failed);
  };
  const change = async <Answer>(question: Question<Answer>) => {
    await returnLeases(number, ports);
    return askOnce<AccountObject, Answer>(ports, number, question).catch(failed);
  };
  const manage = (actor: Actor, action: KeyAction) => change((object) => object.manage(actor, action));
  return {
    open: (...asked) => read((object) => object.open(...asked)),
    describe: () => read((object) => object.describe()),
    amend: (...asked) => change((object) => object.amend(...asked)),
    inFlight: (...asked) => read((object) => object.inFlight(...asked)),
    close: () => change((object) => object.close()),
    credit: (...asked) => change((object) => object.credit(...asked)),
    entries: (...asked) => read((object) => object.entries(...asked)),
    ledgerParts: (...asked) => read((object) => object.ledgerParts(...asked)),
    entriesBetween: (...asked) => read((object) => object.entriesBetween(...asked)),
    view: (...asked) => read((object) => object.view(...asked)),
    audit: () => read((object) => object.audit(), LONGEST_AUDIT_MS),
    // One signature for keys and one for teams; the object tells them apart by the action.
    manage: manage as AccountService["manage"],
    teams: (...asked) => read((object) => object.teams(...asked)),
    team: (...asked) => read((object) => object.team(...asked)),
    keys: (...asked) => read((object) => object.keys(...asked)),
    key: (...asked) => read((object) => object.key(...asked)),
    standing: (...asked) => read((object) => object.standing(...asked)),
    findKey: (...asked) => read((object) => object.findKey(...asked)),
    computeState: () => read((object) => object.computeState()),
    stopCompute: (...asked) => change((object) => object.stopCompute(...asked)),
    moveSeat: (...asked) => change((object) => object.moveSeat(...asked)),
    beginHourly: (...asked) => change((object) => object.beginHourly(...asked)),
    endHourly: (...asked) => change((object) => object.endHourly(...asked)),
    knownTags: (...asked) => read((object) => object.knownTags(...asked)),
  };
}

function rethrow(error: unknown): never {
  throw error;
}
