/** `GET /account/calls`: owners and admins see their account's or team's calls, members those of their own key. */
import * as z from "zod/mini";
import { callPage, callQuery, callsOf } from "../kit/call-query.ts";
import { serializeTenantCall, TenantCallAnswer } from "../kit/call-record.ts";
import { answers, ok, route } from "../kit/route.ts";
import { type SelfServiceRoutes, visibleTo } from "./self-service.ts";

const list = route({
  id: "listCalls",
  method: "get",
  path: "/account/calls",
  summary: "List single calls, newest first: a member's key its own, others their account's or team's",
  query: z.strictObject({ ...callQuery, key: z.optional(z.string()) }),
  answers: { 200: answers("Calls; a page may be short and yet have a cursor", callsOf(TenantCallAnswer)) },
});

export function addSelfCalls(api: SelfServiceRoutes): void {
  api.add(list, async ({ work: { context, standing }, query }) => {
    const whose = visibleTo(standing);
    // A member's key asks for its own or for none.
    if (whose.key !== undefined && query.key !== undefined && query.key !== whose.key) {
      return ok({ data: [], next_cursor: null, source: "books" });
    }
    return ok(await callPage(context, query, { key: query.key, ...whose }, serializeTenantCall));
  });
}
