/**
 * Tags: the upstream names of our resources, `tg<deployment>-<account number>-<id>-<random>`. The deployment's mark
 * separates two gateways on one upstream account. The random part prevents a restored account from adopting the machine
 * of another row with the same number and id.
 */
import { toHex } from "../formats/bytes.ts";
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

/** This deployment's mark: the first 6 hex digits of an HMAC, which reveal nothing. */
export const deploymentMark = async (secrets: { hmac(text: string): Promise<Uint8Array> }): Promise<string> =>
  toHex(await secrets.hmac("compute")).slice(0, 6);

/** Undefined if the name is not a tag. */
export function parseTag(name: string): Tag | undefined {
  const [, deployment, account, id, random] = TAG.exec(name) ?? [];
  if (!deployment || !account || !id || !random) return undefined;
  return { deployment, account: asId<AccountNumber>(Number(account)), id: Number(id), random };
}
