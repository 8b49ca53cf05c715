/** How a command ends when it does not end well. The message says what is wrong and what to do. */

/** `refused`: the gateway, or the person who was asked, said no. */
export type Ending = "fault" | "usage" | "missing" | "refused";

export const EXIT_CODES: Readonly<Record<Ending, number>> = { fault: 1, usage: 2, missing: 3, refused: 4 };

export class Failure extends Error {
  readonly ending: Ending;
  /** The gateway's word for it. */
  readonly code: string | null;

  constructor(ending: Ending, message: string, code: string | null = null) {
    super(message);
    this.ending = ending;
    this.code = code;
  }
}

export const fault = (message: string): Failure => new Failure("fault", message);
export const usage = (message: string): Failure => new Failure("usage", message);
export const missing = (message: string): Failure => new Failure("missing", message);
export const refused = (message: string): Failure => new Failure("refused", message);
