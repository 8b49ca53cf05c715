/** One call: what is known of it, its tries one after another, and the proof of its charge. */
import { link } from "../kit/address.ts";
import { get, part } from "../kit/api.ts";
import { Outcome, usageText } from "../kit/call-columns.tsx";
import { Copied } from "../kit/dialog.tsx";
import { count, ms, time, usd, words } from "../kit/format.ts";
import { Head } from "../kit/frame.tsx";
import { useLoad } from "../kit/load.ts";
import { Badge, Facts, Ready } from "../kit/notices.tsx";
import type { ProvedCall, Schemas } from "../kit/types.ts";

export const CallPage = ({ call = "" }: { call?: string }) => <Page key={call} id={call} />;

function Page({ id }: { id: string }) {
  const loaded = useLoad((signal) => get<ProvedCall>(`/admin/calls/${part(id)}`, {}, signal), [id]);
  return (
    <>
      <Head title="Call">
        <code>{id}</code>
      </Head>
      <Ready of={loaded}>{(call) => <Shown call={call} />}</Ready>
    </>
  );
}

function Shown({ call }: { call: ProvedCall }) {
  return (
    <>
      <Facts
        of={[
          ["Outcome", <Outcome key="o" call={call} />],
          ["Reason", call.reason ?? "–"],
          [
            "Account",
            <a key="a" href={link(`/accounts/${call.account}`)}>
              {call.account}
            </a>,
          ],
          [
            "Key",
            <a key="k" href={link("/calls", { key: call.key, account: call.account })}>
              {call.key}
            </a>,
          ],
          ["Model", call.model ?? "–"],
          ["Target", call.upstream ? `${call.target_model} at ${call.upstream}` : "–"],
          ["Endpoint", `${call.endpoint}${call.stream ? ", streamed" : ""}`],
          ["Region, country", `${call.region ?? "–"}, ${call.country ?? "–"}`],
          ["Began", time(call.started_at)],
          ["Ended", time(call.ended_at)],
          ["First byte", ms(call.first_byte_ms)],
          ["Latency", ms(call.latency_ms)],
          ["Usage", `${usageText(call) || "none"} (${words(call.source)})`],
          ["Charged", usd(call.charged_usd)],
          ["Cost", usd(call.cost_usd)],
          ["Held", call.held_usd === null ? "–" : usd(call.held_usd)],
          ["Overrun, loss", `${usd(call.overrun_usd)}, ${usd(call.loss_usd)}`],
        ]}
      />
      <h2>Tries</h2>
      <Waterfall call={call} />
      <h2>Proof of the charge</h2>
      {call.proof ? (
        <Proof proof={call.proof} call={call} />
      ) : (
        <p class="quiet">Its prices were not recorded, so there is none.</p>
      )}
    </>
  );
}

/** Tries in order; each begins where the one before ended. */
function Waterfall({ call: { tries, latency_ms } }: { call: ProvedCall }) {
  if (!tries || tries.length === 0) return <p class="quiet">No upstream was asked.</p>;
  const whole = Math.max(
    latency_ms,
    tries.reduce((sum, one) => sum + one.ms, 0),
    1,
  );
  let before = 0;
  const bars = tries.map((one) => {
    const left = (before / whole) * 100;
    before += one.ms;
    return { ...one, left, width: Math.max(0.5, (one.ms / whole) * 100) };
  });
  return (
    <ol class="waterfall">
      {bars.map(({ upstream, model, result, ms: took, left, width }, index) => (
        <li key={`${index} ${upstream}`}>
          <span>
            {model} at <a href={link(`/upstreams/${upstream}`)}>{upstream}</a>
          </span>
          <svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
            <rect x={left} width={width} height="8" class={result === "answered" ? "good" : "bad"} />
          </svg>
          <span class="number">
            {words(result)}, {ms(took)}
          </span>
        </li>
      ))}
    </ol>
  );
}

function Proof({ proof, call }: { proof: Schemas["Proof"]; call: ProvedCall }) {
  const lines = proof.lines.map(
    ({ unit, quantity, price_usd, per }) => `${count(quantity)} ${words(unit)} x ${usd(price_usd)} per ${count(per)}`,
  );
  const text = [
    `Call ${call.id}, ${call.ended_at}`,
    ...lines,
    `Sum: ${usd(proof.sum_usd)}; at most what was held, ${usd(proof.held_usd)}`,
    `Charged: ${usd(proof.charged_usd)}, by ${proof.price_rule}`,
    ...proof.entries.map(
      (entry) =>
        `Ledger ${entry.id}, ${entry.at}: ${entry.kind} ${usd(entry.amount_usd)}, balance ${usd(entry.balance_usd)}`,
    ),
  ].join("\n");
  return (
    <>
      <p>{proof.ok ? <Badge kind="good">agrees with the ledger</Badge> : <Badge kind="bad">does not agree</Badge>}</p>
      <Copied label="Proof" text={text} />
    </>
  );
}
