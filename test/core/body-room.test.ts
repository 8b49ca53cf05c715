import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  BodyRoom,
  LONGEST_WAIT_MS,
  type Place,
  ROOM_BYTES,
  SILENT_INSIDE_MS,
  SILENT_WAITING_MS,
} from "../../src/core/body-room.ts";

const MB = 1024 * 1024;

describe("room for large bodies", () => {
  it("takes as many bytes as it has, and lets the next one in when one leaves", () => {
    const room = new BodyRoom();
    const [a, b, c] = ["a", "b", "c"].map((account) => room.queue(account, 24 * MB, 0)) as [Place, Place, Place];
    expect([a, b, c].map((place) => room.ask(place, 0))).toEqual(["inside", "inside", "wait"]);
    expect(room.heldBytes).toBe(ROOM_BYTES);
    room.leave(a);
    expect(room.ask(c, 1)).toBe("inside");
  });

  it("holds one body of an account, and nobody else waits for the account's second", () => {
    const room = new BodyRoom();
    const [first, second, other] = ["a", "a", "b"].map((account) => room.queue(account, 2 * MB, 0)) as [
      Place,
      Place,
      Place,
    ];
    expect([first, second, other].map((place) => room.ask(place, 0))).toEqual(["inside", "wait", "inside"]);
    room.leave(first);
    expect(room.ask(second, 1)).toBe("inside");
  });

  it("lets nobody pass one who waits for room: a large body is not starved by smaller ones", () => {
    const room = new BodyRoom();
    const [a, b, large, small] = [30, 10, 26, 2].map((size, at) => room.queue(`${at}`, size * MB, 0)) as [
      Place,
      Place,
      Place,
      Place,
    ];
    expect([a, b, large, small].map((place) => room.ask(place, 0))).toEqual(["inside", "inside", "wait", "wait"]);
    room.leave(a);
    expect([large, small].map((place) => room.ask(place, 1))).toEqual(["inside", "inside"]);
  });

  it("is too late after 5 s, once and for all", () => {
    const room = new BodyRoom();
    const inside = room.queue("a", 48 * MB, 0);
    room.ask(inside, 0);
    const waiting = room.queue("b", 2 * MB, 0);
    for (let ms = 0; ms < LONGEST_WAIT_MS; ms += 500) {
      room.stay(inside, ms);
      expect(room.ask(waiting, ms)).toBe("wait");
    }
    expect(room.ask(waiting, LONGEST_WAIT_MS)).toBe("too_late");
    room.leave(inside);
    expect(room.ask(waiting, LONGEST_WAIT_MS + 1)).toBe("too_late");
    expect(room.heldBytes).toBe(0);
  });

  it("forgets those that were torn down: who waits and asks no more, who is inside and says nothing", () => {
    const room = new BodyRoom();
    const [inside, silent, waiting] = ["a", "b", "c"].map((account) => room.queue(account, 40 * MB, 0)) as [
      Place,
      Place,
      Place,
    ];
    expect([inside, silent, waiting].map((place) => room.ask(place, 0))).toEqual(["inside", "wait", "wait"]);
    room.stay(inside, SILENT_WAITING_MS);
    room.ask(waiting, SILENT_WAITING_MS);
    room.leave(inside);
    expect(room.ask(waiting, SILENT_WAITING_MS + 1)).toBe("inside");
    const late = room.queue("d", 40 * MB, 2_000);
    expect(room.ask(late, 2_000)).toBe("wait");
    const later = room.queue("e", 40 * MB, SILENT_WAITING_MS + 2 + SILENT_INSIDE_MS);
    expect(room.ask(later, SILENT_WAITING_MS + 2 + SILENT_INSIDE_MS)).toBe("inside");
  });

  it("never holds more than its bytes, nor two of an account, whoever comes and goes", () => {
    const step = fc.record({
      what: fc.constantFrom("queue", "ask", "leave", "pass"),
      account: fc.constantFrom("a", "b", "c", "d"),
      size: fc.integer({ min: 1, max: 26 }),
      at: fc.nat(20),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
        const room = new BodyRoom();
        const places: Place[] = [];
        const inside = new Set<Place>();
        let now = 0;
        for (const { what, account, size, at } of steps) {
          const place = places[at % (places.length || 1)];
          if (what === "queue") places.push(room.queue(account, size * MB, now));
          else if (what === "pass") now += 300;
          else if (place && what === "leave") room.leave(place);
          if (place && what === "leave") inside.delete(place);
          if (place && what === "ask" && room.ask(place, now) === "inside") inside.add(place);
          for (const held of inside) room.stay(held, now);
          expect(room.heldBytes).toBeLessThanOrEqual(ROOM_BYTES);
          expect(room.heldBytes).toBe([...inside].reduce((sum, { bytes }) => sum + bytes, 0));
          expect(new Set([...inside].map((held) => held.account)).size).toBe(inside.size);
        }
      }),
    );
  });
});
