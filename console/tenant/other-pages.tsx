/** What a tenant opens after its usage. */
import { Route, Router } from "preact-iso/router";
import { NotFound } from "../kit/frame.tsx";
import { Balance } from "./balance.tsx";
import { Calls } from "./calls.tsx";
import { Compute } from "./compute.tsx";
import { KeysAndTeams } from "./keys-and-teams.tsx";
import { Playground } from "./playground.tsx";
import { Quickstart } from "./quickstart.tsx";
import { TenantWebhooks } from "./webhooks.tsx";

export const OtherPages = () => (
  <Router>
    <Route path="/calls" component={Calls} />
    <Route path="/playground" component={Playground} />
    <Route path="/quickstart" component={Quickstart} />
    <Route path="/keys" component={KeysAndTeams} />
    <Route path="/balance" component={Balance} />
    <Route path="/webhooks" component={TenantWebhooks} />
    <Route path="/compute" component={Compute} />
    <Route default component={NotFound} />
  </Router>
);
