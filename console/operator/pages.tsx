/** The operator's pages: the overview, and behind it the others in a file of their own. */
import { Route, Router } from "preact-iso/router";
import type { Session } from "../kit/api.ts";
import { Frame } from "../kit/frame.tsx";
import { later } from "../kit/later.tsx";
import { Overview } from "./overview.tsx";

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
const OtherPages = later(() => import("./other-pages.tsx").then((pages) => pages.OtherPages));

export function OperatorPages({ who }: { who: Extract<Session, { kind: "operator" }> }) {
  return (
    <Frame places={PLACES} who={who.name} role={`operator, ${who.role}`}>
      <Router>
        <Route path="/console" component={Overview} />
        <Route path="/console/*" component={OtherPages} />
      </Router>
    </Frame>
  );
}
