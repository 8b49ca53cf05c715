/** Upstream's words about a resource, in the tenant's terms: names for tags, our ids for upstream's. */
import { isMachine, type RentedRow } from "./resource.ts";
import { parseTag } from "./tag.ts";

const TAGS = /tg[0-9a-f]{6}-\d+-\d+-[a-z2-7]{6}/g;

export function scrubbed(text: string, row: RentedRow): string {
  const name = isMachine(row) ? row.launched.name : row.asked.name;
  // Another tag is that of storage which the same launch makes: its id is ours.
  const named = text.replace(TAGS, (tag) => (tag === row.tag ? name : String(parseTag(tag)?.id ?? "")));
  return named.replace(/\d+/g, (digits, at: number) => {
    const ours = ids(row).get(Number(digits));
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
