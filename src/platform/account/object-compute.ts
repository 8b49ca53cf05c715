/** The account object's calls about rented machines and drives. */
import type {
  ComputeAccount,
  ComputeAnswer,
  ComputeRequest,
  ComputeState,
  HourlyBegin,
  HourlyBegun,
  KnownTag,
  SeatMove,
  ServiceAnswer,
  ServiceRequest,
} from "../../core/compute/calls.ts";
import type { Observation, Observer } from "../../core/compute/control.ts";
import { LEASE_MS } from "../../core/leases/slice.ts";
import { brokerOf } from "../broker/broker-stub.ts";
import { Compute } from "./compute/compute.ts";
import { beginHourly, endHourly } from "./compute/inference.ts";
import { knownTags, moveSeat } from "./compute/seat.ts";
import { openService } from "./compute/service.ts";
import { NEVER_OPENED } from "./object-store.ts";
import { TenantCalls } from "./object-tenant.ts";

export abstract class ComputeCalls extends TenantCalls implements ComputeAccount, Observer {
  protected readonly rented = new Compute(this.store, this.leaseWaits, (upstream) => brokerOf(this.env, upstream));

  async compute(request: ComputeRequest): Promise<ComputeAnswer> {
    return this.rented.call(request);
  }

  async openService(request: ServiceRequest): Promise<ServiceAnswer> {
    return this.store.transact((state, nowMs) => openService(state, request, nowMs)) ?? NEVER_OPENED;
  }

  async observed(observation: Observation): Promise<readonly string[]> {
    return this.rented.observed(observation);
  }

  async computeState(): Promise<ComputeState | undefined> {
    return this.rented.state();
  }

  async stopCompute(id: number | null): Promise<readonly number[] | undefined> {
    return this.rented.stop(id);
  }

  async moveSeat(from: string | null, to: string | null): Promise<SeatMove | undefined> {
    return this.store.transact((state, nowMs) => moveSeat(state, from, to, nowMs));
  }

  async knownTags(tags: readonly string[]): Promise<readonly KnownTag[] | undefined> {
    return this.store.transact((state) => knownTags(state, tags));
  }

  async beginHourly(asked: HourlyBegin): Promise<HourlyBegun | undefined> {
    const begun = await this.leaseWaits.decided(
      () => this.store.transact((state, nowMs) => beginHourly(state, asked, nowMs)),
      (decided) => decided?.kind === "refused",
    );
    return begun ?? { kind: "refused", refusal: { kind: "busy", retryAfterMs: LEASE_MS } };
  }

  async endHourly(rental: number, unused = false): Promise<void> {
    this.store.transact((state, nowMs) => endHourly(state, rental, unused, nowMs));
  }
}
