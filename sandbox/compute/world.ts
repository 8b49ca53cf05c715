/**
 * Everything the compute service knows, in memory and in the object's tables. `flush` writes what was changed; the
 * object calls it before it answers, so an answer never tells of something that a restart forgets.
 */
import type { Booking } from "./money.ts";
import {
  type Account,
  isMachine,
  isOver,
  type Key,
  type Kind,
  type OfKind,
  occupiesGpus,
  type Region,
  type Resource,
  type Template,
} from "./records.ts";
import { FIRST_REGIONS, FIRST_TEMPLATES, firstAccounts } from "./seed.ts";

/** The first id. An id is never used twice, by whatever kind. */
const FIRST_ID = 50_001;

export interface Lengths {
  readonly hourMs: number;
  readonly dayMs: number;
}

export class World {
  readonly lengths: Lengths;
  readonly #storage: DurableObjectStorage;
  readonly #accounts = new Map<string, Account>();
  readonly #keys = new Map<string, { account: Account; key: Key }>();
  readonly #regions = new Map<string, Region>();
  readonly #templates = new Map<number, Template>();
  readonly #resources = new Map<number, Resource>();
  /** Resources by account, those that are over left out. */
  readonly #live = new Map<string, Set<Resource>>();
  readonly #changed = new Set<Resource | Account>();
  #clockAheadMs: number;
  #nextId: number;

  constructor(storage: DurableObjectStorage, lengths: Lengths) {
    this.#storage = storage;
    this.lengths = lengths;
    this.#clockAheadMs = storage.kv.get<number>("clock_ahead_ms") ?? 0;
    this.#nextId = storage.kv.get<number>("next_id") ?? FIRST_ID;
    for (const account of this.#read<Account>("accounts")) this.#index(account);
    for (const region of this.#read<Region>("regions")) this.#regions.set(region.id, region);
    for (const template of this.#read<Template>("templates")) this.#templates.set(template.id, template);
    for (const resource of this.#read<Resource>("resources")) this.#keep(resource);
    if (this.#regions.size === 0) this.#seed();
  }

  /** By the clock of this account; null: by the sandbox's. */
  now(account: Account | null = null): number {
    return Date.now() + this.#clockAheadMs + (account?.clockAheadMs ?? 0);
  }

  advance(byMs: number): void {
    this.#clockAheadMs += byMs;
    this.#storage.kv.put("clock_ahead_ms", this.#clockAheadMs);
  }

  account(id: string): Account | undefined {
    return this.#accounts.get(id);
  }

  accounts(): readonly Account[] {
    return [...this.#accounts.values()];
  }

  holderOf(key: string): { account: Account; key: Key } | undefined {
    return this.#keys.get(key);
  }

  /** Adds or replaces an account. */
  putAccount(account: Account): void {
    for (const [key, holder] of this.#keys) if (holder.account.account === account.account) this.#keys.delete(key);
    this.#index(account);
    this.#changed.add(account);
  }

  newAccountNumber(): number {
    return 7_001 + this.#accounts.size;
  }

  region(id: string): Region | undefined {
    return this.#regions.get(id);
  }

  regions(): readonly Region[] {
    return [...this.#regions.values()];
  }

  putRegion(region: Region): void {
    this.#regions.set(region.id, region);
    this.#storage.sql.exec("INSERT OR REPLACE INTO regions VALUES (?, ?)", region.id, JSON.stringify(region));
  }

  template(id: number): Template | undefined {
    return this.#templates.get(id);
  }

  templates(): readonly Template[] {
    return [...this.#templates.values()];
  }

  putTemplate(template: Template): void {
    this.#templates.set(template.id, template);
    this.#storage.sql.exec("INSERT OR REPLACE INTO templates VALUES (?, ?)", template.id, JSON.stringify(template));
  }

  newId(): number {
    const id = this.#nextId++;
    this.#storage.kv.put("next_id", this.#nextId);
    return id;
  }

  resource(id: number): Resource | undefined {
    return this.#resources.get(id);
  }

  /** Of this account and kind, whatever state it is in. */
  find<K extends Kind>(account: Account, kind: K, id: number): OfKind<K> | undefined {
    const found = this.#resources.get(id);
    return found?.account === account.account && found.kind === kind ? (found as OfKind<K>) : undefined;
  }

  /** All of a kind, oldest first. */
  list<K extends Kind>(account: Account | null, kind: K): OfKind<K>[] {
    const all = [...this.#resources.values()] as OfKind<K>[];
    return all.filter((one) => one.kind === kind && (account === null || one.account === account.account));
  }

  all(): readonly Resource[] {
    return [...this.#resources.values()];
  }

  live(account: string): ReadonlySet<Resource> {
    return this.#live.get(account) ?? new Set();
  }

  add(resource: Resource): void {
    this.#keep(resource);
    this.#changed.add(resource);
  }

  /** Says that a resource or an account was changed. */
  touch(what: Resource | Account): void {
    this.#changed.add(what);
    if ("id" in what && isOver(what)) this.#live.get(what.account)?.delete(what);
  }

  freeGpus(region: Region): number {
    let free = region.nodes * region.gpusPerNode - region.takenGpus;
    for (const resources of this.#live.values()) {
      for (const one of resources) {
        if (isMachine(one) && one.regionId === region.id && occupiesGpus(one)) free -= one.gpus * one.replicas;
      }
    }
    return Math.max(0, free);
  }

  freeStorageGb(region: Region, kind: "drive" | "filesystem"): number {
    let free = kind === "drive" ? region.driveGb : region.filesystemGb;
    for (const resources of this.#live.values()) {
      for (const one of resources) if (one.kind === kind && one.regionId === region.id) free -= one.sizeGb;
    }
    return Math.max(0, free);
  }

  book({ account, atMs, kind, amountNanoUsd, balanceNanoUsd, resource, description }: Booking): void {
    this.#storage.sql.exec(
      `INSERT INTO bookings (account, at_ms, kind, amount_nano_usd, balance_nano_usd, resource, description)
       VALUES (?, ?, ?, ?, ?, ?, ?)`,
      account,
      atMs,
      kind,
      amountNanoUsd,
      balanceNanoUsd,
      resource,
      description,
    );
  }

  bookings(account: string): Record<string, SqlStorageValue>[] {
    return this.#storage.sql.exec("SELECT * FROM bookings WHERE account = ? ORDER BY id DESC", account).toArray();
  }

  flush(): void {
    for (const what of this.#changed) {
      const record = JSON.stringify(what);
      if ("id" in what) this.#storage.sql.exec("INSERT OR REPLACE INTO resources VALUES (?, ?)", what.id, record);
      else this.#storage.sql.exec("INSERT OR REPLACE INTO accounts VALUES (?, ?)", what.account, record);
    }
    this.#changed.clear();
  }

  #seed(): void {
    for (const region of FIRST_REGIONS) this.putRegion(region);
    for (const template of FIRST_TEMPLATES) this.putTemplate(template);
    for (const account of firstAccounts()) this.putAccount(account);
    this.flush();
  }

  #index(account: Account): void {
    this.#accounts.set(account.account, account);
    for (const key of account.keys) this.#keys.set(key.key, { account, key });
  }

  #keep(resource: Resource): void {
    this.#resources.set(resource.id, resource);
    if (isOver(resource)) return;
    const live = this.#live.get(resource.account) ?? new Set();
    this.#live.set(resource.account, live.add(resource));
  }

  #read<T>(table: "accounts" | "regions" | "templates" | "resources"): T[] {
    const rows = this.#storage.sql.exec<{ record: string }>(`SELECT record FROM ${table} ORDER BY id`);
    return rows.toArray().map(({ record }) => JSON.parse(record) as T);
  }
}
