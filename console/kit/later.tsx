/** Pages in files of their own, loaded when they are first needed; and what is shown where a page cannot be. */
import { Component, type ComponentChildren, type ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Waiting } from "./notices.tsx";

export function later<Props extends object>(load: () => Promise<ComponentType<Props>>): ComponentType<Props> {
  let Loaded: ComponentType<Props> | undefined;
  return function Later(props: Props) {
    const [failed, setFailed] = useState(false);
    const [, setLoaded] = useState(false);
    useEffect(() => {
      if (Loaded) return;
      load().then(
        (component) => {
          Loaded = component;
          setLoaded(true);
        },
        () => setFailed(true),
      );
    }, []);
    if (Loaded) return <Loaded {...props} />;
    return failed ? (
      <Broken text="This page could not be loaded: the gateway is down, or has a newer console." />
    ) : (
      <Waiting />
    );
  };
}

const Broken = ({ text }: { text: string }) => (
  <div class="fault" role="alert">
    <p>{text}</p>
    <div class="buttons">
      <button type="button" class="plain" onClick={() => location.reload()}>
        Load it again
      </button>
      <a class="button plain" href="/console" target="_top">
        Go to the first page
      </a>
    </div>
  </div>
);

/** A page that throws would leave nothing on the screen. */
export class Guard extends Component<{ children: ComponentChildren }, { error: Error | null }> {
  override state: { error: Error | null } = { error: null };

  static override getDerivedStateFromError(error: Error): { error: Error } {
    return { error };
  }

  // Going back leads to a page that can be shown.
  override componentDidMount(): void {
    addEventListener("popstate", () => this.setState({ error: null }));
  }

  override render(): ComponentChildren {
    const { error } = this.state;
    if (!error) return this.props.children;
    return (
      <main>
        <h1>This page cannot be shown</h1>
        <Broken text={`Perhaps the address is not one of the console's. (${error.message})`} />
      </main>
    );
  }
}
