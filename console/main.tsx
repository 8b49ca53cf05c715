/** The console: who is signed in decides which pages there are. */
import { render } from "preact";
import { LocationProvider } from "preact-iso/router";
import { endedBecause, loadSession, session, sessionFault } from "./kit/api.ts";
import { Guard, later } from "./kit/later.tsx";
import { Fault, Waiting } from "./kit/notices.tsx";
import { SignIn } from "./sign-in.tsx";
import "./styles/index.css";

/** Each side's pages are loaded when somebody of that side has signed in. */
const OperatorPages = later(() => import("./operator/pages.tsx").then((pages) => pages.OperatorPages));
const TenantPages = later(() => import("./tenant/pages.tsx").then((pages) => pages.TenantPages));

function Console() {
  const who = session.value;
  if (who === undefined) return <Opening />;
  if (who === null) return <SignIn ended={endedBecause.value} />;
  // Nothing that one of them saw stays for the next one.
  return who.kind === "operator" ? (
    <OperatorPages key={who.id} who={who} />
  ) : (
    <TenantPages key={`${who.account} ${who.id}`} who={who} />
  );
}

const Opening = () =>
  sessionFault.value ? (
    <main class="sign-in">
      <h1>Tollgate</h1>
      <Fault error={sessionFault.value} retry={loadSession} />
    </main>
  ) : (
    <Waiting />
  );

const root = document.getElementById("app");
if (root) {
  render(
    <Guard>
      <LocationProvider scope={/^\/console(?!\/api)(\/|\?|$)/}>
        <Console />
      </LocationProvider>
    </Guard>,
    root,
  );
  void loadSession();
}
