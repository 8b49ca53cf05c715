/** A tenant's pages, as far as the key's role and scopes go. */
import { Route, Router } from "preact-iso/router";
import type { Session } from "../kit/api.ts";
import { Frame, NotFound } from "../kit/frame.tsx";
import { Balance } from "./balance.tsx";
import { Calls } from "./calls.tsx";
import { Compute } from "./compute.tsx";
import { KeysAndTeams } from "./keys-and-teams.tsx";
import { Playground } from "./playground.tsx";
import { Quickstart } from "./quickstart.tsx";
import { Usage } from "./usage.tsx";
import { TenantWebhooks } from "./webhooks.tsx";

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

export function TenantPages({ who }: { who: Who }) {
  return (
    <Frame places={places(who)} who={who.account_name} role={`${who.name}, ${who.role}`}>
      <Router>
        <Route path="/console" component={Usage} />
        <Route path="/console/calls" component={Calls} />
        <Route path="/console/playground" component={Playground} />
        <Route path="/console/quickstart" component={Quickstart} />
        <Route path="/console/keys" component={KeysAndTeams} />
        <Route path="/console/balance" component={Balance} />
        <Route path="/console/webhooks" component={TenantWebhooks} />
        <Route path="/console/compute" component={Compute} />
        <Route default component={NotFound} />
      </Router>
    </Frame>
  );
}
