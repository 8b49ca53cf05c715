/** Upstream's words for tenants: our names and ids in place of its own. */
import { isMachine, type RentedRow, type ResourceRow } from "./resource.ts";
import { parseTag } from "./tag.ts";

const TAGS = /tg[0-9a-f]{6}-\d+-\d+-[a-z2-7]{6}/g;

/** About something rented: its own id and tag, and those of the storage that it attaches. */
export function scrubbed(text: string, row: RentedRow): string {
  const name = isMachine(row) ? row.launched.name : row.asked.name;
  // Another tag is that of storage which the same launch makes: its id is ours.
  const named = text.replace(TAGS, (tag) => (tag === row.tag ? name : String(parseTag(tag)?.id ?? "")));
  const known = ids(row);
  return named.replace(/\d+/g, (digits, at: number) => {
    const ours = known.get(Number(digits));
    // A size or a count is no id.
    return ours === undefined || /^ (?:GB|GPU|USD)/.test(named.slice(at + digits.length)) ? digits : String(ours);
  });
}

/** From upstream's ids to ours: the row's own, and those of the storage that it attaches. */
function ids(row: RentedRow): Map<number, number> {
  const own: [number, number][] = row.upstreamId === null ? [] : [[row.upstreamId, row.id]];
  if (!isMachine(row)) return new Map(own);
  const { drives, filesystems } = row.launched;
  const attached = [...drives, ...filesystems].flatMap(({ id, upstream }): [number, number][] =>
    upstream.kind === "existing" ? [[upstream.id, id]] : [],
  );
  return new Map([...attached, ...own]);
}

const NAMED_IDS = /\b(image)( #| id | )(\d+)\b/gi;

/** About a registered image. `rows`: the account's. Of ids only those of images. */
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
