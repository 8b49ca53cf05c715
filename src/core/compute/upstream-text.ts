/** Upstream's words for tenants: our names and ids in place of its own. */
import type { ResourceRow } from "./resource.ts";

const NAMED_IDS = /\b(image)( #| id | )(\d+)\b/gi;

/** `rows`: the account's. Of ids only those of images: scrub.ts knows those of a machine and its storage. */
export function ownWords(text: string, rows: readonly ResourceRow[]): string {
  const named = rows.reduce((before, row) => before.replaceAll(row.tag, nameOf(row)), text);
  return named.replace(NAMED_IDS, (whole: string, noun: string, between: string, id: string) => {
    const kind = noun.toLowerCase();
    const own = rows.find((row) => row.kind === kind && row.upstreamId === Number(id));
    return own ? `${noun}${between}${own.id}` : whole;
  });
}

function nameOf(row: ResourceRow): string {
  if ("launched" in row) return row.launched.name;
  return "asked" in row ? row.asked.name : row.name;
}
