/**
 * The life of a registered image: what its calls mean, and what lists show of it.
 *
 * A secret is in the call that carries it and nowhere else, so a call whose answer is lost is never repeated from here.
 * The list is asked at once: what it shows as wanted is done, anything else is told to the tenant, who sends it again.
 * A registration that comes to exist after that is deleted. A delete is repeated until a list no longer shows it.
 */
import type { ControlAnswer } from "./control.ts";
import { CREATE_PROOF_MS, LISTS_FOR_PROOF } from "./observe.ts";
import type { ComputeRefusal } from "./refusals.ts";
import type { ImageRequest, Registration } from "./registrations.ts";
import type { ImageRow } from "./resource.ts";
import { type ImageDocument, readImage, readImages } from "./upstream-images.ts";
import { type CallOutcome, type Next, outcomeOf, refusalOf, retryDelayMs } from "./wants.ts";

/** `after`: what the image is once upstream took the change. `settled`: whether it was, before. */
export type ImageCall =
  | { readonly verb: "register"; readonly image: ImageRequest }
  | { readonly verb: "change"; readonly image: ImageRequest; readonly after: Registration; readonly settled: boolean }
  /** Reads the list after a lost answer. `after`: of a change; null: of a registration. */
  | { readonly verb: "find"; readonly after: Registration | null }
  | { readonly verb: "remove" };

const VERBS: ReadonlySet<string> = new Set<ImageCall["verb"]>(["register", "change", "find", "remove"]);
export const isImageCall = (call: { readonly verb: string }): call is ImageCall => VERBS.has(call.verb);

/** A change is certainly over after this long, with its list. Another one may then be sent. */
export const CHANGE_TAKES_MS = 60_000;

/** `follow`: a call to send at once; the tenant waits for it too. */
export interface ImageAnswered {
  readonly row: ImageRow;
  readonly refusal: ComputeRefusal | null;
  readonly follow: ImageCall | null;
}

const told = (
  row: ImageRow,
  refusal: ComputeRefusal | null = null,
  follow: ImageCall | null = null,
): ImageAnswered => ({
  row,
  refusal,
  follow,
});

const UNANSWERED: ComputeRefusal = { kind: "unanswered" };

/** Exists here only: its seat is shared, so upstream has no registration. */
export const isLocal = ({ create, upstreamId }: ImageRow): boolean => create === "done" && upstreamId === null;

export function nextOfImage(row: ImageRow, nowMs: number): Next<ImageCall> {
  const { upstreamId, deletedAtMs, gone, sending } = row;
  if (upstreamId === null || deletedAtMs === null || gone) return { do: "none" };
  if (sending === null) return { do: "send", call: { verb: "remove" } };
  // A list has to show that it is gone, or that the delete is to be sent again.
  if (sending.answered) return { do: "none" };
  const atMs = sending.lastMs + retryDelayMs(sending.tries);
  return nowMs >= atMs ? { do: "send", call: { verb: "remove" } } : { do: "wait", atMs };
}

/** The row to store before `call` is sent. */
export function imageSent(row: ImageRow, { verb }: ImageCall, nowMs: number): ImageRow {
  if (verb === "change") return { ...row, settled: false, changingSinceMs: nowMs, changedAtMs: nowMs };
  if (verb !== "remove") return row;
  const sending = { tries: (row.sending?.tries ?? 0) + 1, lastMs: nowMs, answered: false };
  return { ...row, sending, changedAtMs: nowMs };
}

/** Applies the broker's answer to a call. */
export function imageAnswered(row: ImageRow, call: ImageCall, answer: ControlAnswer, nowMs: number): ImageAnswered {
  switch (call.verb) {
    case "register":
      return registerAnswered(
        row,
        call,
        outcomeOf("create", answer, (body) => readImage(body) ?? null),
        nowMs,
      );
    case "change":
      return changeAnswered(
        row,
        call,
        outcomeOf("patch", answer, (body) => readImage(body) ?? null),
        nowMs,
      );
    case "find":
      return found(row, call.after, answer, nowMs);
    case "remove": {
      const { kind } = outcomeOf("stop", answer, () => null);
      if (row.sending === null || (kind !== "done" && kind !== "not_found")) return told(row);
      return told({ ...row, sending: { ...row.sending, answered: true }, changedAtMs: nowMs });
    }
  }
}

type Outcome = CallOutcome<ImageDocument>;

function registerAnswered(
  row: ImageRow,
  { image }: Extract<ImageCall, { verb: "register" }>,
  outcome: Outcome,
  nowMs: number,
): ImageAnswered {
  // A list may have shown it before the answer came.
  if (row.create !== "unknown") return told(row);
  if (outcome.kind === "done" && outcome.document?.tag === row.tag) return told(shown(row, outcome.document, nowMs));
  // Another's object tells nothing of ours.
  if (outcome.kind === "done" || outcome.kind === "unknown" || outcome.kind === "not_found") {
    return told(row, null, { verb: "find", after: null });
  }
  return told({ ...row, create: "refused", gone: true }, scrubbed(refusalOf(outcome), image));
}

function changeAnswered(
  row: ImageRow,
  { image, after, settled }: Extract<ImageCall, { verb: "change" }>,
  outcome: Outcome,
  nowMs: number,
): ImageAnswered {
  if (outcome.kind === "unknown") return told(row, null, { verb: "find", after });
  if (outcome.kind === "done") return told(changed(row, after, nowMs));
  const refusal: ComputeRefusal =
    outcome.kind === "not_found" ? { kind: "unavailable", retryAfterMs: null } : refusalOf(outcome);
  return told({ ...row, settled, changingSinceMs: null, changedAtMs: nowMs }, scrubbed(refusal, image));
}

/** The list after a lost answer. */
function found(row: ImageRow, after: Registration | null, answer: ControlAnswer, nowMs: number): ImageAnswered {
  const listed = answer.kind === "answered" && answer.status === 200 ? readImages(answer.body) : undefined;
  const document = listed?.find(({ tag }) => tag === row.tag);
  if (after === null) {
    if (row.create !== "unknown") return told(row);
    return document ? told(shown(row, document, nowMs)) : told(abandonImage(row, nowMs), UNANSWERED);
  }
  // A new secret under the same name cannot be seen: then nothing proves that it was taken.
  if (document && isShown(document, after) && !isShown(document, registrationOf(row))) {
    return told(changed(row, after, nowMs));
  }
  return told({ ...row, changingSinceMs: null }, UNANSWERED);
}

/** What no answer and no list confirmed. If it comes to exist, it is deleted. */
export const abandonImage = (row: ImageRow, nowMs: number): ImageRow =>
  row.create === "unknown" ? { ...row, deletedAtMs: row.deletedAtMs ?? nowMs } : row;

/** Whether the tenant who waits for the call cannot be told how it ended. */
export const isUnanswered = (row: ImageRow, { verb }: ImageCall): boolean =>
  (verb === "register" && row.create === "unknown") || (verb === "change" && row.changingSinceMs !== null);

/** An image as an account's other rules see it. */
export const registrationOf = ({ name, registryUrl, registryUsername, hasCredentials }: ImageRow): Registration => ({
  name,
  registryUrl,
  username: hasCredentials ? (registryUsername ?? "") : null,
});

const isShown = (document: ImageDocument, { registryUrl, username }: Registration): boolean =>
  document.registryUrl === registryUrl && (document.hasCredentials ? document.username : null) === username;

const changed = (row: ImageRow, after: Registration, nowMs: number): ImageRow => ({
  ...row,
  name: after.name,
  registryUrl: after.registryUrl,
  registryUsername: after.username,
  hasCredentials: after.username !== null,
  settled: true,
  changingSinceMs: null,
  changedAtMs: nowMs,
});

const shown = (row: ImageRow, document: ImageDocument, nowMs: number): ImageRow => ({
  ...withDocument(row, document),
  create: "done",
  settled: true,
  changedAtMs: nowMs,
});

const withDocument = (
  row: ImageRow,
  { upstreamId, registryUrl, username, hasCredentials }: ImageDocument,
): ImageRow => ({
  ...row,
  upstreamId,
  registryUrl,
  registryUsername: username,
  hasCredentials,
});

/** Upstream's text, if it holds nothing of the credential. It may repeat what it was sent. */
function scrubbed(refusal: ComputeRefusal, { registry_secret }: ImageRequest): ComputeRefusal {
  if (refusal.kind !== "upstream_refused") return refusal;
  if (registry_secret && refusal.text.includes(registry_secret)) {
    return { ...refusal, text: "The service refused this registration. Check `registry_url` and the credential." };
  }
  return refusal;
}

/** Applies what a list shows. `document`: null: the list lacks it. */
export function imageObserved(
  row: ImageRow,
  document: ImageDocument | null,
  askedAtMs: number,
  nowMs: number,
): ImageRow {
  if (askedAtMs < row.changedAtMs) return row;
  if (document === null) return absent(row, askedAtMs);
  // Another one with our tag: our own came first and stays.
  if (row.upstreamId !== null && row.upstreamId !== document.upstreamId) return row;
  if (row.deletedAtMs !== null || row.create === "refused" || row.create === "lost") {
    const sending = row.sending?.answered ? null : row.sending;
    const deletedAtMs = row.deletedAtMs ?? nowMs;
    return { ...row, upstreamId: document.upstreamId, create: "done", deletedAtMs, gone: false, sending };
  }
  if (row.create === "unknown") return shown(row, document, nowMs);
  // A lost change may be executed late: only after some time does a list prove what stands.
  const settled = row.settled || askedAtMs >= row.changedAtMs + CREATE_PROOF_MS;
  return { ...withDocument(row, document), settled };
}

function absent(row: ImageRow, askedAtMs: number): ImageRow {
  if (row.deletedAtMs !== null && row.sending?.answered) return { ...row, gone: true, sending: null };
  if (row.create !== "unknown" || askedAtMs < row.createdAtMs + CREATE_PROOF_MS) return row;
  // The same list counts once.
  if (askedAtMs <= row.missing.askedAtMs) return row;
  const missing = { lists: row.missing.lists + 1, askedAtMs };
  return missing.lists < LISTS_FOR_PROOF ? { ...row, missing } : { ...row, missing, create: "lost", gone: true };
}

/** Whether something about it is unproven: its kind is then listed every 5 s. */
export const imageInTransition = (row: ImageRow): boolean =>
  !row.gone && (row.create === "unknown" || !row.settled || row.deletedAtMs !== null);
