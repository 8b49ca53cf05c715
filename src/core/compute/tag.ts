/**
 * Tags: the names that our resources have upstream, `tg<deployment>-<account number>-<id>-<random>`. The deployment's mark
 * keeps two gateways on one upstream account apart; the random part keeps a restored account from adopting the machine
 * of another row of the same number and id.
 */
import { type AccountNumber, asId } from "../ids.ts";

export interface Tag {
  /** 6 hex digits. */
  readonly deployment: string;
  readonly account: AccountNumber;
  readonly id: number;
  /** 6 characters of base32. */
  readonly random: string;
}

const TAG = /^tg([0-9a-f]{6})-([1-9]\d{0,14})-([1-9]\d{0,14})-([a-z2-7]{6})$/;

export const formatTag = ({ deployment, account, id, random }: Tag): string =>
  `tg${deployment}-${account}-${id}-${random}`;

/** Undefined for a name that is no tag of any deployment. */
export function parseTag(name: string): Tag | undefined {
  const [, deployment, account, id, random] = TAG.exec(name) ?? [];
  if (!deployment || !account || !id || !random) return undefined;
  return { deployment, account: asId<AccountNumber>(Number(account)), id: Number(id), random };
}
