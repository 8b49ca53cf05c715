/**
 * The order in which a call asks its targets: by priority; within one priority in turn if all weights are equal,
 * otherwise drawn by weight. A target of weight 0 comes last in its priority.
 */
import type { Target } from "./routes.ts";

/**
 * Returns each target once. `random` gives numbers in [0, 1). `turn`: how many calls chose among these targets before;
 * equals take turns by it.
 */
export function orderTargets(targets: readonly Target[], random: () => number, turn = 0): readonly Target[] {
  if (targets.length < 2) return targets;
  const priorities = [...new Set(targets.map((target) => target.priority))].sort((a, b) => a - b);
  return priorities.flatMap((priority) => {
    const equals = targets.filter((target) => target.priority === priority);
    const [first] = equals;
    return equals.every((target) => target.weight === first?.weight)
      ? rotate(equals, turn)
      : drawByWeight(equals, random);
  });
}

/** Spreads calls evenly: each call starts at the next target. */
function rotate(targets: readonly Target[], turn: number): readonly Target[] {
  const start = turn % targets.length;
  return [...targets.slice(start), ...targets.slice(0, start)];
}

function drawByWeight(targets: readonly Target[], random: () => number): Target[] {
  const left = [...targets];
  const drawn: Target[] = [];
  while (left.length > 0) {
    const total = left.reduce((sum, target) => sum + target.weight, 0);
    let point = random() * total;
    let index = left.findIndex((target) => {
      point -= target.weight;
      return point < 0;
    });
    if (index === -1) index = 0;
    drawn.push(...left.splice(index, 1));
  }
  return drawn;
}
