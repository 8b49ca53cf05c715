/**
 * Random numbers that are the same for the same seed. Each user has a stream of its own, so that its draws do not
 * depend on the timing of others.
 */

/** Numbers in [0, 1). */
export type Random = () => number;

/** The stream of this name (mulberry32, seeded by an FNV-1a hash of seed and name). */
export function streamOf(seed: number, name: string): Random {
  let state = 0x811c9dc5;
  for (const character of `${seed} ${name}`) state = Math.imul(state ^ character.charCodeAt(0), 0x01000193);
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

export const pick = <T>(random: Random, all: readonly T[]): T => all[Math.floor(random() * all.length)] as T;
