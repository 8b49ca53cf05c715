/**
 * `/admin/operators`: the operator's people, each with a token of its own and a role. Several tokens live at once, so
 * one is replaced without a gap: make the new one, use it, revoke the old one.
 */
import * as z from "zod/mini";
import { OPERATOR_ROLES } from "../../core/account/operators.ts";
import {
  addOperator,
  amendOperator,
  findOperator,
  listOperators,
  type OperatorRow,
  revokeOperator,
} from "../../platform/d1/operators.ts";
import { type AdminRoutes, known } from "../kit/context.ts";
import { Deleted, deleted, listOf, name, namedPage, pageRequest, timeAnswer } from "../kit/fields.ts";
import { conflict } from "../kit/problem.ts";
import { answers, created, ok, route } from "../kit/route.ts";
import { toIso, toIsoOrNull } from "../kit/serializers.ts";

/** Live tokens at once. */
const MOST_OPERATORS = 200;

const role = z
  .enum(OPERATOR_ROLES)
  .check(
    z.describe(
      "`owner`: everything. `finance`: reads, credits, plans, prices. `support`: reads, blocks, revokes keys. `read`: reads",
    ),
  );
const fields = {
  id: z.string(),
  name: z.string(),
  role,
  last_four: z.string(),
  created_at: timeAnswer,
  last_used_at: z.nullable(timeAnswer).check(z.describe("To the minute")),
  revoked_at: z.nullable(timeAnswer),
};
const OperatorAnswer = z.object(fields).register(z.globalRegistry, { id: "Operator" });
const NewOperatorAnswer = z
  .object({
    ...fields,
    token: z.nullable(z.string()).check(z.describe("Shown in this answer only; null in the answer to a repeat")),
  })
  .register(z.globalRegistry, { id: "NewOperator" });

const serialize = (row: OperatorRow) => ({
  id: row.id,
  name: row.name,
  role: row.role,
  last_four: row.lastFour,
  created_at: toIso(row.createdMs),
  last_used_at: toIsoOrNull(row.lastUsedMs),
  revoked_at: toIsoOrNull(row.revokedMs),
});

const create = route({
  id: "createOperator",
  method: "post",
  path: "/admin/operators",
  summary: "Make an operator; its token is shown in this answer only",
  body: z.strictObject({ name, role }).register(z.globalRegistry, { id: "OperatorBody" }),
  answers: { 201: answers("The operator with its token", NewOperatorAnswer) },
  secret: "token",
});
const list = route({
  id: "listOperators",
  method: "get",
  path: "/admin/operators",
  summary: "List the operators, revoked ones too",
  query: z.strictObject(namedPage),
  answers: { 200: answers("Operators by id", listOf(OperatorAnswer)) },
});
const get = route({
  id: "getOperator",
  method: "get",
  path: "/admin/operators/{operator}",
  summary: "Read an operator",
  answers: { 200: answers("The operator", OperatorAnswer) },
});
const patch = route({
  id: "updateOperator",
  method: "patch",
  path: "/admin/operators/{operator}",
  summary: "Change its name or role, from its next call on",
  body: z
    .strictObject({ name: z.optional(name), role: z.optional(role) })
    .register(z.globalRegistry, { id: "OperatorPatch" }),
  answers: { 200: answers("The operator", OperatorAnswer) },
});
const remove = route({
  id: "revokeOperator",
  method: "delete",
  path: "/admin/operators/{operator}",
  summary: "Revoke its token for good, from its next call on",
  answers: { 200: answers("Revoked", Deleted) },
});

const revoked = (id: string) => conflict("operator_revoked", `The operator '${id}' is revoked. Make a new one.`);

export function addOperators(api: AdminRoutes): void {
  api.add(create, async ({ work: { books, secrets, now }, body, making }) => {
    const { text, digest, lastFour } = await secrets.newOperatorToken();
    const row = { id: making.id("op_"), ...body, lastFour, createdMs: now(), lastUsedMs: null, revokedMs: null };
    if (!(await addOperator(books, row, digest, MOST_OPERATORS))) {
      const made = await findOperator(books, row.id);
      if (made) return created({ ...serialize(made), token: null });
      throw conflict("too_many_operators", `There are ${MOST_OPERATORS} live operators. Revoke one that is not used.`);
    }
    return created({ ...serialize(row), token: text });
  });

  api.add(list, async ({ work: { books }, query }) => {
    const page = await listOperators(books, pageRequest(query));
    return ok({ data: page.data.map(serialize), next_cursor: page.nextCursor });
  });

  api.add(get, async ({ work: { books }, params }) =>
    ok(serialize(known(await findOperator(books, params.operator), "operator", params.operator))),
  );

  api.add(patch, async ({ work: { books }, params: { operator: id }, body }) => {
    const changed = await amendOperator(books, id, body);
    const row = known(await findOperator(books, id), "operator", id);
    if (!changed) throw revoked(id);
    return ok(serialize(row));
  });

  api.add(remove, async ({ work: { books, now }, params: { operator: id } }) => {
    if (await revokeOperator(books, id, now())) return ok(deleted(id));
    known(await findOperator(books, id), "operator", id);
    throw revoked(id);
  });
}
