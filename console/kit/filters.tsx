/** Filters of a list, kept in the address. */
import { useAddress } from "./address.ts";
import { time, words } from "./format.ts";

export interface Filter {
  readonly name: string;
  readonly label: string;
  /** Where only these may be chosen. */
  readonly options?: readonly string[];
}

export function Filters({ of }: { of: readonly Filter[] }) {
  const { query, set } = useAddress();
  const span = query.from || query.to;
  const filtered = span || of.some(({ name }) => query[name]);
  return (
    <form class="filters" aria-label="Filters" onSubmit={(event) => event.preventDefault()}>
      {of.map(({ name, label, options }) =>
        options ? (
          <select
            key={name}
            aria-label={label}
            value={query[name] ?? ""}
            onChange={(event) => set({ [name]: event.currentTarget.value }, true)}
          >
            <option value="">{label}: any</option>
            {options.map((option) => (
              <option key={option} value={option}>
                {words(option)}
              </option>
            ))}
          </select>
        ) : (
          <input
            key={name}
            aria-label={label}
            placeholder={label}
            value={query[name] ?? ""}
            onChange={(event) => set({ [name]: event.currentTarget.value.trim() }, true)}
          />
        ),
      )}
      {span && (
        <span class="quiet">
          {query.from ? moment(query.from) : "the beginning"} to {query.to ? moment(query.to) : "now"}
        </span>
      )}
      {filtered && (
        <button
          type="button"
          class="plain"
          onClick={() =>
            set(Object.fromEntries([...of.map(({ name }) => [name, null]), ["from", null], ["to", null]]), true)
          }
        >
          Clear
        </button>
      )}
    </form>
  );
}
/** What stands in the address may be any text; the API reads `-1h` too. */
const moment = (text: string): string => (Number.isNaN(Date.parse(text)) ? text : time(new Date(text).toISOString()));

export const OUTCOMES = ["completed", "client_gone", "stream_broken", "failed", "expired", "refused"];
