/**
 * Parses upstream's container images: the fields of the contract and no other, so that an upstream that shows a secret
 * does not put it into our rows.
 */
import { asObject, parseObject } from "../formats/json-fields.ts";

export interface ImageDocument {
  readonly upstreamId: number;
  readonly tag: string;
  readonly registryUrl: string;
  readonly username: string | null;
  readonly hasCredentials: boolean;
}

const MOST_TEXT = 2_000;
const isText = (value: unknown): value is string => typeof value === "string" && value.length <= MOST_TEXT;

/** Undefined if it cannot be read. */
export const readImage = (body: string): ImageDocument | undefined => documentOf(parseObject(body));

/** The images of a list; undefined for what is no list. */
export function readImages(body: string): ImageDocument[] | undefined {
  let parsed: unknown;
  try {
    parsed = JSON.parse(body);
  } catch {
    return undefined;
  }
  return Array.isArray(parsed) ? parsed.flatMap((item: unknown) => documentOf(asObject(item)) ?? []) : undefined;
}

function documentOf(fields: Record<string, unknown> | undefined): ImageDocument | undefined {
  const { id, name, registry_url, registry_username, has_credentials } = fields ?? {};
  if (typeof id !== "number" || !Number.isSafeInteger(id) || !isText(name) || !isText(registry_url)) return undefined;
  return {
    upstreamId: id,
    tag: name,
    registryUrl: registry_url,
    username: isText(registry_username) ? registry_username : null,
    hasCredentials: has_credentials === true,
  };
}

/** A listed image with the contract's fields only, for the broker to keep. */
export function plainImage(item: unknown): Record<string, unknown> {
  const { id, name, registry_url, registry_username, has_credentials, created_at } = asObject(item) ?? {};
  return { id, name, registry_url, registry_username, has_credentials, created_at };
}
