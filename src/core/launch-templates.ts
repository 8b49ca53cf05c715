/**
 * Templates: defaults for the fields of a launch, set by the operator for all accounts or for one. A launch that names
 * a template gets the fields that it leaves out. Null counts as said: it leaves a default out.
 */
import { asObject } from "./formats/json-fields.ts";
import type { AccountId } from "./ids.ts";

/** Fields of a launch that may have a default. Ids, keys and storage belong to an account, so none of them may. */
export interface LaunchDefaults {
  readonly region_id?: string | undefined;
  readonly gpu_type?: string | undefined;
  readonly gpu_count?: number | undefined;
  readonly replicas?: number | undefined;
  readonly container_image?: string | undefined;
  readonly startup_command?: string | undefined;
  readonly init_script?: string | undefined;
  readonly service_port?: number | undefined;
  readonly ssh_enabled?: boolean | undefined;
  readonly interruptible?: boolean | undefined;
  readonly estimated_duration_hours?: number | undefined;
}

export interface LaunchTemplate {
  readonly id: number;
  /** Null: every account sees it. */
  readonly account: AccountId | null;
  readonly name: string;
  readonly description: string | null;
  readonly defaults: LaunchDefaults;
}

/** All templates travel with the routing snapshot, so their number and size are small. */
export const MOST_TEMPLATES = 100;
/** Of the defaults as JSON. */
export const MAX_DEFAULTS_BYTES = 8_192;

/** Those that the account sees, by id. */
export const templatesFor = (templates: readonly LaunchTemplate[], account: AccountId): readonly LaunchTemplate[] =>
  templates.filter((one) => one.account === null || one.account === account).sort((a, b) => a.id - b.id);

/** What tenants see of a template. */
export const templateDocument = ({ id, account, name, description, defaults }: LaunchTemplate) => ({
  id,
  name,
  description,
  public: account === null,
  defaults,
});

/** The template that a body names; undefined: none, or what is no id, which the schema refuses. */
export function templateNamed(body: unknown): number | undefined {
  const id = asObject(body)?.template_id;
  return Number.isSafeInteger(id) ? (id as number) : undefined;
}

/** The body with the fields that it leaves out. */
export const withDefaults = (body: unknown, { defaults }: LaunchTemplate): unknown => ({
  ...defaults,
  ...asObject(body),
});
