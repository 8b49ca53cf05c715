/**
 * A tenant's pages, as far as the key's role and scopes go: its usage, and behind it the others in a file of their own.
 */
import { Route, Router } from "preact-iso/router";
import type { Session } from "../kit/api.ts";
import { Frame } from "../kit/frame.tsx";
import { later } from "../kit/later.tsx";
import { Usage } from "./usage.tsx";

type Who = Extract<Session, { kind: "tenant" }>;

const places = ({ role, scopes }: Who) => [
  { path: "", label: "Usage" },
  { path: "/calls", label: "Calls" },
  ...(scopes.includes("inference") ? [{ path: "/playground", label: "Playground" }] : []),
  { path: "/quickstart", label: "Quickstart" },
  ...(role === "member" ? [] : [{ path: "/keys", label: "Keys and teams" }]),
  { path: "/balance", label: "Balance and limits" },
  ...(role === "owner" ? [{ path: "/webhooks", label: "Webhooks" }] : []),
  ...(scopes.includes("compute") ? [{ path: "/compute", label: "Compute" }] : []),
];

const OtherPages = later(() => import("./other-pages.tsx").then((pages) => pages.OtherPages));

export function TenantPages({ who }: { who: Who }) {
  return (
    <Frame places={places(who)} who={who.account_name} role={`${who.name}, ${who.role}`}>
      <Router>
        <Route path="/console" component={Usage} />
        <Route path="/console/*" component={OtherPages} />
      </Router>
    </Frame>
  );
}
