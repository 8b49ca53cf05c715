/** The operator's pages. */
import { Route, Router } from "preact-iso/router";
import type { Session } from "../kit/api.ts";
import { Frame, NotFound } from "../kit/frame.tsx";
import { AccountPage } from "./account.tsx";
import { Accounts } from "./accounts.tsx";
import { Alerts } from "./alerts.tsx";
import { CallPage } from "./call.tsx";
import { Calls } from "./calls.tsx";
import { Changes } from "./changes.tsx";
import { Compute } from "./compute.tsx";
import { FindKey } from "./find-key.tsx";
import { ModelPage } from "./model.tsx";
import { Models } from "./models.tsx";
import { Operators } from "./operators.tsx";
import { Overview } from "./overview.tsx";
import { UpstreamPage } from "./upstream.tsx";
import { Upstreams } from "./upstreams.tsx";

const PLACES = [
  { path: "", label: "Overview" },
  { path: "/accounts", label: "Accounts" },
  { path: "/keys", label: "Keys" },
  { path: "/calls", label: "Calls" },
  { path: "/models", label: "Models and prices" },
  { path: "/upstreams", label: "Upstreams" },
  { path: "/compute", label: "Compute" },
  { path: "/alerts", label: "Alerts" },
  { path: "/operators", label: "Operators" },
  { path: "/changes", label: "Changes" },
];

export function OperatorPages({ who }: { who: Extract<Session, { kind: "operator" }> }) {
  return (
    <Frame places={PLACES} who={who.name} role={`operator, ${who.role}`}>
      <Router>
        <Route path="/console" component={Overview} />
        <Route path="/console/accounts" component={Accounts} />
        <Route path="/console/accounts/:account" component={AccountPage} />
        <Route path="/console/accounts/:account/:tab" component={AccountPage} />
        <Route path="/console/keys" component={FindKey} />
        <Route path="/console/calls" component={Calls} />
        <Route path="/console/calls/:call" component={CallPage} />
        <Route path="/console/models" component={Models} />
        <Route path="/console/models/:model" component={ModelPage} />
        <Route path="/console/upstreams" component={Upstreams} />
        <Route path="/console/upstreams/:upstream" component={UpstreamPage} />
        <Route path="/console/compute" component={Compute} />
        <Route path="/console/alerts" component={Alerts} />
        <Route path="/console/operators" component={Operators} />
        <Route path="/console/changes" component={Changes} />
        <Route default component={NotFound} />
      </Router>
    </Frame>
  );
}
