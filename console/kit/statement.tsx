/** A month's statement, as the API has it. */
import { useAddress } from "./address.ts";
import { apiUrl, get, withQuery } from "./api.ts";
import { count, time, usd } from "./format.ts";
import { useLoad } from "./load.ts";
import { Ready } from "./notices.tsx";
import type { Statement } from "./types.ts";

export function StatementOf({ path }: { path: string }) {
  const { query, set } = useAddress();
  const month = query.month ?? new Date().toISOString().slice(0, 7);
  const loaded = useLoad((signal) => get<Statement>(path, { month }, signal), [path, month]);
  return (
    <section>
      <div class="tools">
        <label>
          Month{" "}
          <input
            type="month"
            value={month}
            max={new Date().toISOString().slice(0, 7)}
            onChange={(event) => set({ month: event.currentTarget.value })}
          />
        </label>
        <span class="grow" />
        <a class="button plain" href={apiUrl(withQuery(path, { month, format: "csv" }))} download data-native>
          CSV
        </a>
      </div>
      <Ready of={loaded}>{(statement) => <Lines of={statement} />}</Ready>
    </section>
  );
}

function Lines({ of }: { of: Statement }) {
  return (
    <section class="scroll" tabIndex={0} aria-label={`Statement of ${of.month}`}>
      <table class="statement">
        <caption>
          {of.month}
          {of.complete ? "" : ", until now"}
        </caption>
        <thead>
          <tr>
            <th scope="col">What</th>
            <th scope="col" class="number">
              Calls
            </th>
            <th scope="col" class="number">
              USD
            </th>
          </tr>
        </thead>
        <tbody>
          <Line what="Opening balance" amount={of.opening_usd} strong />
          {of.credits.map(({ at, kind, amount_usd, reference }) => (
            <Line
              key={at + reference}
              what={`${time(at)}: ${kind.replace("_", "-")}${reference ? `, ${reference}` : ""}`}
              amount={amount_usd}
            />
          ))}
          {of.charges.map(({ model, calls, charged_usd }) => (
            <Line key={model} what={model} calls={calls} amount={-charged_usd} />
          ))}
          {of.unreported_usd !== 0 && <Line what="Charged, and not reported yet" amount={-of.unreported_usd} />}
          <Line what="Closing balance" amount={of.closing_usd} strong />
        </tbody>
      </table>
    </section>
  );
}

const Line = ({ what, calls, amount, strong }: { what: string; calls?: number; amount: number; strong?: boolean }) => (
  <tr class={strong ? "strong" : undefined}>
    <th scope="row">{what}</th>
    <td class="number">{calls === undefined ? "" : count(calls)}</td>
    <td class="number">{usd(amount)}</td>
  </tr>
);
