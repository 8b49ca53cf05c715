/** Errors about body fields, for the caller. A path is built only for a field that is refused. */
import { bracketed, formOf } from "../../issue-words.ts";
import type { RefusedField } from "./refused.ts";

export interface FieldFault {
  /** In OpenAI's notation: `messages[0].content`. */
  readonly path: string;
  readonly message: string;
}

type Step = string | number;
/** `steps` are innermost first: each level appends its own on the way out. */
export interface Found {
  readonly steps: Step[];
  readonly say: (path: string) => string;
}

export const here = (say: (path: string) => string): Found => ({ steps: [], say });

export function outwards(found: Found, step: Step): Found {
  found.steps.push(step);
  return found;
}

export const refusing =
  (refused: RefusedField | undefined) =>
  (path: string): string =>
    `\`${path}\` is not accepted: ${refused?.why ?? ""}.`;
export const renaming =
  (name: string) =>
  (path: string): string =>
    `\`${path}\` is not accepted: write \`${name}\`.`;
export const invalid =
  (wrong: string, value: unknown) =>
  (path: string): string =>
    `\`${path}\` ${wrong}; it was ${formOf(value)}.`;

export function faultAt(found: Found | undefined): FieldFault | undefined {
  if (!found) return undefined;
  const path = bracketed(found.steps.toReversed());
  return { path, message: found.say(path) };
}
