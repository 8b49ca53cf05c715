import { expect, it } from "vitest";
import { idOf } from "../../../src/core/endpoints/compute/compute-endpoint.ts";
import { MACHINE_ROWS } from "../../../src/core/endpoints/compute/machine-rows.ts";
import { toHttp } from "../../../src/core/http-refusal.ts";

const row = (id: string) => {
  const found = MACHINE_ROWS.find((one) => one.id === id);
  if (!found) throw new Error(`no row ${id}`);
  return found;
};
function says(id: string, body: unknown): string {
  const parsed = row(id).parse(body);
  return parsed.ok ? "ok" : `${toHttp(parsed.refusal).status} ${toHttp(parsed.refusal).message}`;
}
const INSTANCE = { region_id: "eu-1", gpu_type: "H100", gpu_count: 1, container_image: "img:1" };
const CLUSTER = { region_id: "eu-1", gpu_count: 2, replicas: 2, container_image: "img:1", estimated_duration_hours: 1 };

it("ids and routes are unique, each needs the scope, and only launches count as launches", () => {
  for (const of of ["id", "path"] as const) {
    const values = MACHINE_ROWS.map((one) => (of === "id" ? one.id : `${one.method} ${one.path}`));
    expect(new Set(values).size).toBe(values.length);
  }
  expect(MACHINE_ROWS.every(({ access }) => access.scope === "compute" && access.role === "member")).toBe(true);
  expect(MACHINE_ROWS.every(({ path, on }) => path.includes("{id}") === (on !== null))).toBe(true);
  const launches = MACHINE_ROWS.filter(({ limits }) => limits.some(({ name }) => name === "launches"));
  expect(launches.map(({ id }) => id)).toEqual(["instances.launch", "clusters.launch"]);
});

it.each<[string, object, string, readonly unknown[], readonly unknown[]]>([
  ["instances.launch", INSTANCE, "gpu_count", [1, 8], [0, 9, 1.5, "1"]],
  ["instances.launch", INSTANCE, "estimated_duration_hours", [0, 1, 72, null, undefined], [-1, 73]],
  ["instances.launch", INSTANCE, "service_port", [1, 65_535, null], [0, 65_536]],
  ["clusters.launch", CLUSTER, "gpu_count", [1, 2, 4, 8], [0, 3, 16]],
  ["clusters.launch", CLUSTER, "replicas", [2, 8], [1, 9]],
  ["clusters.launch", CLUSTER, "estimated_duration_hours", [1, 72], [0, 73, undefined]],
  ["clusters.scale", {}, "replicas", [1, 8], [0, 9, undefined]],
  ["instances.extend", {}, "hours", [1, 72], [0, 73, 1.5]],
  ["instances.patch", {}, "service_port", [1, null], [0]],
])("%s: %j with %s at its limits and one beyond", (id, body, field, good, bad) => {
  for (const value of good) expect(says(id, { ...body, [field]: value })).toBe("ok");
  for (const value of bad) expect(says(id, { ...body, [field]: value })).toContain(`400 \`${field}\` `);
});

it("unknown fields are not kept, and a body that is none is 400", () => {
  expect(row("instances.extend").parse({ hours: 2, evil: true })).toEqual({ ok: true, body: { hours: 2 } });
  expect(says("instances.launch", null)).toContain("400 The request body");
  expect(says("instances.patch", {})).toContain("must name at least one of");
});

it("an id in a path is a plain integer", () => {
  expect(["1000", "01", "-1", "1e3", "1.0", "", "９", "1234567890123456"].map(idOf)).toEqual([
    1000,
    ...Array.from({ length: 7 }, () => null),
  ]);
});
