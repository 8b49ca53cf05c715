/** An account's audit: whether its books agree with each other. It reads the whole ledger, so it may take a while. */
import { get, part } from "../kit/api.ts";
import { count, time, usd } from "../kit/format.ts";
import { useLoad } from "../kit/load.ts";
import { Badge, Facts, Fault } from "../kit/notices.tsx";
import type { Schemas } from "../kit/types.ts";

export function Audited({ account }: { account: string }) {
  const { data, error, loading, reload } = useLoad(
    (signal) => get<Schemas["Audit"]>(`/admin/audit/${part(account)}`, {}, signal),
    [account],
  );
  return (
    <>
      <Fault error={error} retry={reload} />
      {loading && (
        <p role="status">
          Reading every entry of the ledger… <progress aria-label="Audit" />
        </p>
      )}
      {data && (
        <>
          <p>
            {data.ok ? <Badge kind="good">the books agree</Badge> : <Badge kind="bad">the books do not agree</Badge>}{" "}
            <button type="button" class="plain" disabled={loading} onClick={reload}>
              Audit again
            </button>
          </p>
          {data.problems.map((problem) => (
            <p key={problem} class="fault">
              {problem}
            </p>
          ))}
          <Facts
            of={[
              ["Sum of all entries", usd(data.entries_usd)],
              ["Balance", usd(data.balance_usd)],
              ["Held", `${usd(data.held_usd)} by ${count(data.open_holds)} calls`],
              ["Oldest hold", time(data.oldest_hold_at)],
              ["Overrun", usd(data.overrun_usd)],
              ["Your loss", usd(data.operator_loss_usd)],
              ["Events on their way", count(data.outbox)],
            ]}
          />
        </>
      )}
    </>
  );
}
