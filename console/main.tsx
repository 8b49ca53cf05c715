/** The console: who is signed in decides which pages there are. */
import { render } from "preact";
import lazy, { ErrorBoundary } from "preact-iso/lazy";
import { LocationProvider } from "preact-iso/router";
import { endedBecause, loadSession, session } from "./kit/api.ts";
import { SignIn } from "./sign-in.tsx";
import "./styles/index.css";

/** Each side's pages are loaded when somebody of that side has signed in. */
const OperatorPages = lazy(() => import("./operator/pages.tsx").then((pages) => pages.OperatorPages));
const TenantPages = lazy(() => import("./tenant/pages.tsx").then((pages) => pages.TenantPages));

function Console() {
  const who = session.value;
  if (who === undefined) return <p class="quiet loading">Loading…</p>;
  if (who === null) return <SignIn ended={endedBecause.value} />;
  return who.kind === "operator" ? <OperatorPages who={who} /> : <TenantPages who={who} />;
}

const root = document.getElementById("app");
if (root) {
  render(
    <LocationProvider scope={/^\/console(?!\/api)(\/|\?|$)/}>
      <ErrorBoundary>
        <Console />
      </ErrorBoundary>
    </LocationProvider>,
    root,
  );
  void loadSession();
}
