/** Filters live in the address, so that a page can be sent to a colleague as it is. */
import { useLocation } from "preact-iso/router";

export interface Address {
  readonly query: Readonly<Record<string, string>>;
  /** Changes some parameters; an empty one leaves the address. `push`: the browser's back button undoes it. */
  set(changes: Readonly<Record<string, string | null | undefined>>, push?: boolean): void;
}

export function useAddress(): Address {
  const { path, query, route } = useLocation();
  return {
    query,
    set(changes, push = false) {
      const entries = Object.entries({ ...query, ...changes }).filter(([, value]) => value);
      const text = new URLSearchParams(entries as [string, string][]).toString();
      route(text ? `${path}?${text}` : path, !push);
    },
  };
}

/** An address with parameters. */
export const link = (
  path: string,
  query: Readonly<Record<string, string | number | null | undefined>> = {},
): string => {
  const entries = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const text = new URLSearchParams(entries.map(([name, value]) => [name, String(value)])).toString();
  return `/console${path}${text ? `?${text}` : ""}`;
};
