/**
 * The broker: one Durable Object per upstream account for compute, the only sender of control calls there.
 *
 * It keeps the upstream's limits (sender.ts), lists what exists and notifies the accounts (lists.ts), and reads the
 * upstream account's own balance, so that nothing is launched that the operator cannot pay. It must not hold tenants'
 * money or decide about resources: the account objects do.
 */
import { DurableObject } from "cloudflare:workers";
import { type CallClass, callsOfSpan } from "../../core/compute/call-budget.ts";
import {
  type Address,
  type BrokerPort,
  type BrokerView,
  type ControlAnswer,
  type ControlCall,
  type FreshList,
  MARKET_PATHS,
  type Market,
  type Observer,
  type SeatTerms,
} from "../../core/compute/control.ts";
import { LIST_PATHS, LISTED_KINDS, type ListedKind, type Watch } from "../../core/compute/listing.ts";
import { deploymentMark } from "../../core/compute/tag.ts";
import { readImages } from "../../core/compute/upstream-images.ts";
import { type AccountNumber, asId, type CallId } from "../../core/ids.ts";
import { Alarm } from "../account/alarm.ts";
import { earliest } from "../account/earliest.ts";
import { accountObject } from "../account/stub.ts";
import { findUpstream } from "../d1/upstreams.ts";
import { log } from "../log.ts";
import { readSecrets } from "../secrets.ts";
import { raise } from "../webhooks/raise.ts";
import { Balance } from "./balance.ts";
import { migrate } from "./broker-schema.ts";
import { callControl, LONGEST_PAUSE_MS } from "./control-client.ts";
import { KeyLane } from "./key-lane.ts";
import { type ListingPorts, listedAt, nextListMs, runDueLists, runList, sameUntil } from "./lists.ts";
import { Replicas } from "./replicas.ts";
import { Sender } from "./sender.ts";
import { BrokerTables } from "./tables.ts";

const MARKET_KEPT_MS = 5_000;
const REFERENCES_KEPT_MS = 15_000;
/** Nobody closes a broker for longer, ms: what lies further ahead was written by another clock. */
const LONGEST_CLOSED_MS = 300_000;
/** A step back of the clock up to this passes by itself, ms: machines differ, and are corrected, by less. */
const STEP_MS = 5_000;

const newCallId = (): CallId => asId<CallId>(crypto.randomUUID());

type Destination = Parameters<typeof callControl>[3]["to"];

/** What makes or changes something, and is no stop. It must not go to an address or account that is none any more. */
const isChange = ({ cls, method }: ControlCall): boolean => cls !== "stop" && method !== "GET";

export class Broker extends DurableObject<Env> implements BrokerPort {
  readonly #tables: BrokerTables;
  readonly #sender: Sender;
  readonly #balance: Balance;
  readonly #alarm = new Alarm(this.ctx.storage);
  readonly #replicas = new Replicas(() => Date.now());
  #keys: KeyLane | undefined;
  /** The latest time that was seen, ms. */
  #latestMs: number | undefined;
  #references: { readonly all: Promise<readonly string[] | undefined>; readonly atMs: number } | null = null;
  readonly #markets = new Map<Market, { readonly answer: Promise<ControlAnswer>; readonly atMs: number }>();

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    ctx.storage.transactionSync(() => migrate(ctx.storage));
    this.#tables = new BrokerTables(ctx.storage.sql);
    this.#sender = new Sender(this.#tables, () => Date.now());
    this.#balance = new Balance(
      this.#tables,
      () => Date.now(),
      (alert) => ctx.waitUntil(raise(env, [alert], Date.now()).catch(() => undefined)),
    );
  }

  async send(upstream: string, call: ControlCall): Promise<ControlAnswer> {
    this.#serve(upstream);
    const { terms } = call;
    const key = terms?.shared ? terms.launchKey : null;
    return key ? this.#keyLane(upstream).launch(key, () => this.#send(upstream, call)) : this.#send(upstream, call);
  }

  async #send(upstream: string, call: ControlCall): Promise<ControlAnswer> {
    const { needsNanoUsd } = call;
    if (isChange(call) && this.#closed()) return { kind: "not_sent", why: "closed", retryAfterMs: 5_000 };
    if (needsNanoUsd !== null) {
      await this.#balance.refresh(() => this.#read(upstream, "/billing/balance"));
      if (!this.#balance.covers(upstream, needsNanoUsd)) {
        return { kind: "not_sent", why: "upstream_balance", retryAfterMs: 60_000 };
      }
    }
    const answer = await this.#sendInTurn(
      upstream,
      call.account,
      call.cls,
      call,
      isChange(call) ? "books" : "snapshot",
    );
    const executed = answer.kind === "unknown" || (answer.kind === "answered" && answer.status < 300);
    if (needsNanoUsd !== null && executed) this.#balance.spent(needsNanoUsd);
    const isGone = answer.kind === "answered" && answer.status === 404;
    return isGone ? { ...answer, sameUntilMs: sameUntil(this.#tables, call.path) } : answer;
  }

  async watch(upstream: string, account: AccountNumber, watches: readonly Omit<Watch, "account">[]): Promise<void> {
    this.#serve(upstream);
    this.ctx.storage.transactionSync(() => this.#tables.watch(account, watches));
    this.#alarm.arm(this.#nextMs(upstream), Date.now());
  }

  /** When something is to be done by itself. */
  #nextMs(upstream: string): number | null {
    return earliest([nextListMs(this.#tables), this.#keyLane(upstream).nextMs()]);
  }

  #keyLane(upstream: string): KeyLane {
    const call = (method: "GET" | "DELETE", path: string, cls: CallClass) =>
      this.#sendInTurn(upstream, 0, cls, { callId: newCallId(), method, path, body: null }, "books");
    this.#keys ??= new KeyLane(upstream, this.#tables, {
      list: () => call("GET", LIST_PATHS.ssh_key, "list"),
      remove: (id) => call("DELETE", `${LIST_PATHS.ssh_key}/${id}`, "stop"),
      now: () => Date.now(),
      changed: () => this.#alarm.arm(this.#nextMs(upstream), Date.now()),
    });
    return this.#keys;
  }

  async terms(upstream: string, needs: "shared" | "references"): Promise<SeatTerms | undefined> {
    this.#serve(upstream);
    const row = await findUpstream(this.env.BOOKS, upstream).catch(() => undefined);
    if (!row?.shared) return row && { shared: false };
    const references = needs === "references" ? await this.#registered(upstream) : [];
    return references && { shared: true, references };
  }

  /** References of all images at the upstream account: undefined if it gives no list. */
  #registered(upstream: string): Promise<readonly string[] | undefined> {
    const known = this.#references;
    if (known && Math.abs(Date.now() - known.atMs) < REFERENCES_KEPT_MS) return known.all;
    const all = this.#read(upstream, LIST_PATHS.image, true, "books").then((answer) => {
      const listed = answer.kind === "answered" && answer.status === 200 ? readImages(answer.body) : undefined;
      if (!listed && this.#references?.all === all) this.#references = null;
      return listed?.map(({ registryUrl }) => registryUrl);
    });
    this.#references = { all, atMs: Date.now() };
    return all;
  }

  async market(upstream: string, market: Market): Promise<ControlAnswer> {
    this.#serve(upstream);
    const known = this.#markets.get(market);
    if (known && Math.abs(Date.now() - known.atMs) < MARKET_KEPT_MS) return known.answer;
    const answer = this.#read(upstream, MARKET_PATHS[market]);
    this.#markets.set(market, { answer, atMs: Date.now() });
    return answer;
  }

  async replicas(upstream: string, cluster: number): Promise<ControlAnswer> {
    this.#serve(upstream);
    return this.#replicas.read(cluster, () => this.#read(upstream, `/gpu-clusters/${cluster}/replicas`));
  }

  async reconcile(upstream: string): Promise<BrokerView> {
    this.#serve(upstream);
    const ports = await this.#listing(upstream);
    for (const kind of LISTED_KINDS) if (ports) await runList(kind, this.#tables, ports);
    await this.#balance.refresh(() => this.#read(upstream, "/billing/balance"));
    return this.view(upstream);
  }

  async view(upstream: string): Promise<BrokerView> {
    this.#serve(upstream);
    const pausedUntilMs = this.#tables.time("paused_until");
    const listed = LISTED_KINDS.flatMap((kind) => {
      const atMs = listedAt(this.#tables, kind);
      return atMs === null ? [] : [[kind, atMs] as const];
    });
    return {
      ...this.#balance.view(),
      calls: callsOfSpan(this.#tables.sent, Date.now()),
      pausedUntilMs: pausedUntilMs !== null && pausedUntilMs > Date.now() ? pausedUntilMs : null,
      listedAtMs: Object.fromEntries(listed),
      seen: this.#tables.seen(),
    };
  }

  async fresh(upstream: string, kind: ListedKind, at?: Address): Promise<FreshList> {
    this.#serve(upstream);
    const ports = await this.#listing(upstream);
    const current = ports && { ...ports, list: (path: string) => this.#read(upstream, path, true, at ?? "books") };
    if (!current || !(await runList(kind, this.#tables, current))) return { ok: false };
    return { ok: true, seen: this.#tables.seen().filter((one) => one.kind === kind) };
  }

  async close(upstream: string, token: string, forMs: number): Promise<void> {
    this.#serve(upstream);
    const { [token]: _, ...others } = this.#closings();
    const until = forMs > 0 ? { [token]: Date.now() + Math.min(forMs, LONGEST_CLOSED_MS) } : {};
    this.#tables.setFact("closed", JSON.stringify({ ...others, ...until }));
  }

  #closings(): Record<string, number> {
    const leftMs = ([, untilMs]: [string, number]) => untilMs - Date.now();
    const all = Object.entries(JSON.parse(this.#tables.fact("closed") ?? "{}") as Record<string, number>);
    return Object.fromEntries(all.filter((one) => leftMs(one) > 0 && leftMs(one) <= LONGEST_CLOSED_MS));
  }

  #closed(): boolean {
    return Object.keys(this.#closings()).length > 0;
  }

  override async alarm(): Promise<void> {
    this.#look();
    this.#alarm.guard(Date.now());
    const upstream = this.#tables.fact("upstream");
    try {
      const ports = upstream === undefined ? undefined : await this.#listing(upstream);
      if (upstream !== undefined && ports) {
        await runDueLists(this.#tables, ports);
        await this.#balance.refresh(() => this.#read(upstream, "/billing/balance"));
      }
      if (upstream !== undefined) await this.#keyLane(upstream).look();
    } catch (error) {
      log({ event: "broker_alarm_failed", upstream: upstream ?? null, error: String(error) });
    }
    this.#alarm.finish(upstream === undefined ? null : this.#nextMs(upstream), Date.now());
  }

  /** Notices that the clock was set back, and repairs what it wrote while it was ahead. */
  #look(): boolean {
    const nowMs = Date.now();
    const latestMs = this.#latestMs ?? this.#tables.latestMs();
    const byMs = latestMs - nowMs;
    const isBack = byMs > STEP_MS;
    if (isBack) {
      log({ event: "clock_set_back", by_ms: byMs });
      this.ctx.storage.transactionSync(() => this.#tables.setBack(nowMs, byMs, LONGEST_PAUSE_MS));
    }
    this.#latestMs = isBack ? nowMs : Math.max(latestMs, nowMs);
    return isBack;
  }

  /** An alarm does not know the object's name. */
  #serve(upstream: string): void {
    const isBack = this.#look();
    if (this.#tables.fact("upstream") !== upstream) this.#tables.setFact("upstream", upstream);
    if (isBack) this.#alarm.arm(this.#nextMs(upstream), Date.now());
  }

  /** Undefined while the Worker's secrets are unusable. */
  async #listing(upstream: string): Promise<ListingPorts | undefined> {
    const secrets = await readSecrets(this.env);
    if (!secrets.ok) return undefined;
    return {
      upstream,
      deployment: await deploymentMark(secrets.secrets),
      list: (path) => this.#read(upstream, path, true),
      account: (number) => accountObject(this.env, number) as unknown as Observer,
      now: () => Date.now(),
    };
  }

  /** Reads on the broker's own behalf, within its budget for lists. */
  #read(upstream: string, path: string, isList = false, to: Destination = "snapshot"): Promise<ControlAnswer> {
    const request = { callId: newCallId(), method: "GET", path, body: null, isList } as const;
    return this.#sendInTurn(upstream, 0, "list", request, to);
  }

  async #sendInTurn(
    upstream: string,
    account: number,
    cls: CallClass,
    request: Omit<Parameters<typeof callControl>[3], "to">,
    to: Destination,
  ): Promise<ControlAnswer> {
    const turn = await this.#sender.turn(account, cls);
    if (!turn.ok) return { kind: "not_sent", why: "budget", retryAfterMs: turn.retryAfterMs };
    const { answer, pauseMs } = await callControl(this.env, this.ctx, upstream, { ...request, to }, turn.sentAtMs);
    if (pauseMs !== null) this.#sender.pause(Date.now() + pauseMs);
    return answer;
  }
}
