/** `/admin/compute-templates`: defaults for the fields of a launch, which tenants name by the template's id. */

import * as z from "zod/mini";
import { READERS } from "../../core/account/operators.ts";
import { type AccountId, asId } from "../../core/ids.ts";
import { type LaunchTemplate, MOST_TEMPLATES } from "../../core/launch-templates.ts";
import { deleteTemplate, findTemplate, listTemplates, putTemplate } from "../../platform/d1/templates.ts";
import { type AdminRoutes, known } from "../kit/context.ts";
import { Deleted, deleted, listOf, numberedPage, pageRequest } from "../kit/fields.ts";
import { conflict, invalid, notFound } from "../kit/problem.ts";
import { requireAccount } from "../kit/references.ts";
import { answers, ok, route } from "../kit/route.ts";
import { TemplateAnswer, TemplateBody } from "./template-schema.ts";

const put = route({
  id: "putComputeTemplate",
  method: "put",
  path: "/admin/compute-templates/{id}",
  summary: "Make or replace a launch template",
  body: TemplateBody,
  answers: { 200: answers("The template", TemplateAnswer) },
});
const list = route({
  id: "listComputeTemplates",
  method: "get",
  path: "/admin/compute-templates",
  roles: READERS,
  summary: "List the launch templates",
  query: z.strictObject(numberedPage),
  answers: { 200: answers("Templates by id", listOf(TemplateAnswer)) },
});
const get = route({
  id: "getComputeTemplate",
  method: "get",
  path: "/admin/compute-templates/{id}",
  roles: READERS,
  summary: "Read a launch template",
  answers: { 200: answers("The template", TemplateAnswer) },
});
const remove = route({
  id: "deleteComputeTemplate",
  method: "delete",
  path: "/admin/compute-templates/{id}",
  summary: "Delete a launch template; what was launched from it runs on",
  answers: { 200: answers("Deleted", Deleted) },
});

export function addTemplates(api: AdminRoutes): void {
  api.add(put, async ({ work: context, params, body }) => {
    const row: LaunchTemplate = {
      id: templateIdFrom(params.id),
      account: body.account == null ? null : asId<AccountId>(body.account),
      name: body.name,
      description: body.description ?? null,
      defaults: body.defaults,
    };
    await requireAccount(context, row.account);
    if (!(await putTemplate(context.books, row, context.now()))) {
      throw conflict("too_many_templates", `There are ${MOST_TEMPLATES} templates, the most there may be. Delete one.`);
    }
    await context.edge.routingChanged();
    return ok(row);
  });

  api.add(list, async ({ work: context, query }) => {
    const page = await listTemplates(context.books, pageRequest(query));
    return ok({ data: [...page.data], next_cursor: page.nextCursor });
  });

  api.add(get, async ({ work: context, params: { id } }) =>
    ok(known(await findTemplate(context.books, templateIdFrom(id)), "compute template", id)),
  );

  api.add(remove, async ({ work: context, params: { id } }) => {
    if (!(await deleteTemplate(context.books, templateIdFrom(id)))) throw notFound("compute template", id);
    await context.edge.routingChanged();
    return ok(deleted(id));
  });
}

function templateIdFrom(text: string): number {
  if (!/^[1-9]\d{0,14}$/.test(text)) throw invalid("id", "`id` must be a positive integer.");
  return Number(text);
}
