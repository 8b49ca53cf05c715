/** What an operator opens after the overview. */
import { Route, Router } from "preact-iso/router";
import { NotFound } from "../kit/frame.tsx";
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
import { UpstreamPage } from "./upstream.tsx";
import { Upstreams } from "./upstreams.tsx";

export const OtherPages = () => (
  <Router>
    <Route path="/accounts" component={Accounts} />
    <Route path="/accounts/:account" component={AccountPage} />
    <Route path="/accounts/:account/:tab" component={AccountPage} />
    <Route path="/keys" component={FindKey} />
    <Route path="/calls" component={Calls} />
    <Route path="/calls/:call" component={CallPage} />
    <Route path="/models" component={Models} />
    <Route path="/models/:model" component={ModelPage} />
    <Route path="/upstreams" component={Upstreams} />
    <Route path="/upstreams/:upstream" component={UpstreamPage} />
    <Route path="/compute" component={Compute} />
    <Route path="/alerts" component={Alerts} />
    <Route path="/operators" component={Operators} />
    <Route path="/changes" component={Changes} />
    <Route default component={NotFound} />
  </Router>
);
