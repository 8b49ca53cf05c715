/**
 * What an isolate remembers from one request to the next. All of it is here: other modules keep nothing that changes
 * what they answer. It is lost when the isolate ends. Test files in workerd share an isolate, and each begins with a
 * new memory.
 */
import { IsolateLeases } from "../core/leases/isolate-leases.ts";
import { Health } from "../core/routing/target-health.ts";
import { ANSWER_ROOM_BYTES, BodyRoom } from "../core/uploads/upload-limiter.ts";
import { type EdgeState, newEdgeState } from "./edge/directory.ts";
import { SizeWatch } from "./store-sizes.ts";

/** What an upstream said of its key of service paths. */
interface KeyVerdict {
  /** Another key is another question. */
  readonly sealedKey: string;
  readonly askedMs: number;
  /** Null while it is asked. */
  readonly refused: boolean | null;
}

export interface IsolateMemory {
  readonly edge: EdgeState;
  readonly health: Health;
  readonly bodies: BodyRoom;
  readonly mediumBodies: BodyRoom;
  readonly answers: BodyRoom;
  readonly leases: IsolateLeases;
  readonly booksWatch: SizeWatch;
  /** By upstream. */
  readonly serviceKeys: Map<string, KeyVerdict>;
}

export const newMemory = (): IsolateMemory => ({
  edge: newEdgeState(),
  health: new Health(),
  bodies: new BodyRoom(),
  mediumBodies: BodyRoom.forMedium(),
  answers: new BodyRoom(ANSWER_ROOM_BYTES),
  leases: new IsolateLeases(),
  booksWatch: new SizeWatch(),
  serviceKeys: new Map(),
});

export const memory: IsolateMemory = newMemory();
