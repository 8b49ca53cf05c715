import { expect, it } from "vitest";
import { rowAnswered } from "../../../src/core/compute/rows.ts";
import { scrubbed } from "../../../src/core/compute/upstream-text.ts";
import { LENGTHS, launchedRow, SENT } from "../../support/compute/rows.ts";

const row = launchedRow(null, { upstreamId: 77 });
const machine = {
  ...row,
  launched: {
    ...row.launched,
    drives: [{ id: 1005, mountPath: "/a", upstream: { kind: "existing", id: 501 } as const }],
  },
};

it.each([
  [`\`${row.tag}\` is not running`, "`trainer` is not running"],
  ["The instance 77 and the cloud drive 501 are in use.", "The instance 1000 and the cloud drive 1005 are in use."],
  [
    "pods cluster-77-0 and cluster-770-1 of /cloud-drives/501",
    "pods cluster-1000-0 and cluster-770-1 of /cloud-drives/1005",
  ],
  ["There is already a cloud drive named `tgabcdef-7-1006-bbbbbb`.", "There is already a cloud drive named `1006`."],
  ["No free capacity for 501 GB; 77 GPUs are free.", "No free capacity for 501 GB; 77 GPUs are free."],
])("upstream's words come in the tenant's names and ids: %s", (text, shown) => {
  expect(scrubbed(text, machine)).toBe(shown);
});

it("a refusal reaches the tenant so", () => {
  const body = `The cloud drive 501 of ${row.tag} is in_use. Attach one that is available.`;
  const created = { ...machine, upstreamId: null };
  const answer = { kind: "answered", status: 409, body, sentAtMs: SENT } as const;
  expect(rowAnswered(created, { verb: "create" }, answer, SENT + 5, LENGTHS).refusal).toEqual({
    kind: "upstream_refused",
    status: 409,
    text: "The cloud drive 1005 of trainer is in_use. Attach one that is available.",
  });
});
