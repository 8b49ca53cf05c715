/** The frame around every page: where one may go, who is signed in, the page itself. */
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { useLocation } from "preact-iso/router";
import { signOut } from "./api.ts";
import { named } from "./format.ts";
import { Act } from "./notices.tsx";

export interface Place {
  readonly path: string;
  readonly label: string;
}

export function Frame({
  places,
  who,
  role,
  children,
}: {
  places: readonly Place[];
  who: string;
  role: string;
  children: ComponentChildren;
}) {
  const { path } = useLocation();
  const main = useRef<HTMLElement>(null);
  const first = useRef(true);
  const here = [...places].sort((a, b) => b.path.length - a.path.length).find((place) => isAt(path, place.path));
  useEffect(() => {
    document.title = here ? `${here.label} · Tollgate` : "Tollgate";
    // A reader of the screen hears the new page; the first one is read anyway.
    if (!first.current) main.current?.focus();
    first.current = false;
  }, [path]);
  return (
    <div class="frame">
      <a class="skip" href="#main" data-native>
        Skip to the page
      </a>
      <header class="side">
        <details class="menu" open={wide()}>
          <summary>
            <strong>Tollgate</strong>
            <span class="here">{here?.label}</span>
            <span class="open" aria-hidden="true">
              Menu
            </span>
          </summary>
          <nav aria-label="Pages">
            {places.map((place) => (
              <a key={place.path} href={`/console${place.path}`} aria-current={place === here ? "page" : undefined}>
                {place.label}
              </a>
            ))}
          </nav>
          <div class="who">
            <span title={named(who)}>{named(who)}</span>
            <small>{named(role)}</small>
            <Act label="Sign out" run={signOut} />
            <small class="quiet">All times are UTC. Every figure is the API's own.</small>
          </div>
        </details>
      </header>
      <main id="main" ref={main} tabIndex={-1}>
        {children}
      </main>
    </div>
  );
}

const isAt = (path: string, place: string): boolean =>
  place === "" ? /^\/console\/?$/.test(path) : path === `/console${place}` || path.startsWith(`/console${place}/`);

/** Beside the page the menu is always open. */
const wide = (): boolean => matchMedia("(min-width: 900px)").matches;

export const Head = ({
  title,
  coming = false,
  children,
}: {
  title: string;
  /** The title is not the last word yet: what stands below it waits, since it would move. */
  coming?: boolean;
  children?: ComponentChildren;
}) => (
  <header class={coming ? "page coming" : "page"}>
    <h1>{named(title)}</h1>
    <div class="tools">{children}</div>
  </header>
);

export const NotFound = () => (
  <>
    <Head title="No such page" />
    <p>
      Nothing is here. <a href="/console">Go to the first page.</a>
    </p>
  </>
);
