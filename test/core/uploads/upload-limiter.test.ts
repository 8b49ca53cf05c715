import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  BodyRoom,
  FAIR_BYTES_PER_S,
  LONGEST_WAIT_MS,
  MEDIUM_BYTES_PER_ACCOUNT,
  MEDIUM_ROOM_BYTES,
  PATIENCE_MS,
  type Place,
  ROOM_BYTES,
  SILENT_INSIDE_MS,
  SILENT_WAITING_MS,
} from "../../../src/core/uploads/upload-limiter.ts";

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

  describe("gives the room of slow bodies to those who wait", () => {
    /** Places inside at 0 of these sizes in MB, each with the bytes that came of it by `PATIENCE_MS`. */
    const filled = (sizes: readonly number[], arrivedBytes: readonly number[]) => {
      const room = new BodyRoom();
      const places = sizes.map((size, at) => room.queue(`${at}`, size * MB, 0));
      for (const [at, place] of places.entries()) {
        expect(room.ask(place, 0)).toBe("inside");
        room.arrived(place, arrivedBytes[at] ?? 0);
      }
      return { room, places, going: () => places.map((place) => room.givesWay(place)) };
    };

    it("after their time, the slowest first, and no more of them than it takes", () => {
      const { room, places, going } = filled([20, 20, 8], [16_000, 8_000, 4 * MB]);
      const third = room.queue("third", 2 * MB, 0);
      expect([room.ask(third, PATIENCE_MS - 1), going()]).toEqual(["wait", [false, false, false]]);
      expect([room.ask(third, PATIENCE_MS), going()]).toEqual(["wait", [false, true, false]]);
      expect([room.ask(third, PATIENCE_MS + 1), going()]).toEqual(["wait", [false, true, false]]);
      room.leave(places[1] as Place);
      expect(room.ask(third, PATIENCE_MS + 2)).toBe("inside");
    });

    it("but not of those that are quick, or whole, nor where it would not be enough", () => {
      const { room, places, going } = filled([24, 22], [0, 2 * FAIR_BYTES_PER_S]);
      const third = room.queue("third", 2 * MB, 0);
      expect(room.ask(third, PATIENCE_MS)).toBe("inside");
      const fourth = room.queue("fourth", 26 * MB, 0);
      expect([room.ask(fourth, PATIENCE_MS), going()]).toEqual(["wait", [false, false]]);
      room.isWhole(places[0] as Place);
      const fifth = room.queue("fifth", 1 * MB, 0);
      room.leave(fourth);
      expect([room.ask(fifth, PATIENCE_MS), going()]).toEqual(["wait", [false, false]]);
    });

    it("and one that became whole meanwhile stays", () => {
      const { room, places, going } = filled([48], [0]);
      expect(room.ask(room.queue("other", 2 * MB, 0), PATIENCE_MS)).toBe("wait");
      expect(going()).toEqual([true]);
      room.isWhole(places[0] as Place);
      expect(going()).toEqual([false]);
    });
  });
});

describe("room for medium bodies", () => {
  const entering = (room: BodyRoom) => (account: string, bytes: number) => room.ask(room.queue(account, bytes, 0), 0);

  it("is bounded for each account by itself: the sum of its bodies, not their number", () => {
    const room = BodyRoom.forMedium();
    const enter = entering(room);
    expect(Array.from({ length: 9 }, () => enter("a", MB))).toEqual([...Array(8).fill("inside"), "wait"]);
    expect(Array.from({ length: 40 }, () => enter("b", 0.1 * MB))).toEqual(Array(40).fill("inside"));
    expect([room.heldBy("a"), Math.round(room.heldBy("b") / MB)]).toEqual([8 * MB, 4]);
  });

  it("is bounded in total: of 100 accounts with a body each, those inside fill it, and each that leaves lets one in", () => {
    const room = BodyRoom.forMedium();
    const places = Array.from({ length: 100 }, (_, at) => room.queue(`${at}`, MB, 0));
    const fits = MEDIUM_ROOM_BYTES / MB;
    const asked = places.map((place) => room.ask(place, 0));
    expect(asked).toEqual([...Array(fits).fill("inside"), ...Array(100 - fits).fill("wait")]);
    room.leave(places[3] as Place);
    expect(places.slice(fits, fits + 2).map((place) => room.ask(place, 1))).toEqual(["inside", "wait"]);
  });

  it("leaves some to those who come later: the fuller it is, the less one account gets", () => {
    const room = BodyRoom.forMedium();
    const enter = entering(room);
    const got = ["a", "b", "c", "d", "e", "f"].map((account) => {
      let bodies = 0;
      while (enter(account, MB) === "inside") bodies++;
      return bodies;
    });
    expect(got).toEqual([8, 4, 2, 1, 1, 0]);
    expect(room.heldBytes).toBe(MEDIUM_ROOM_BYTES);
  });

  it("goes first to the account that holds least, whoever came first", () => {
    const room = BodyRoom.forMedium();
    const inside = Array.from({ length: MEDIUM_ROOM_BYTES / MB }, (_, at) => room.queue(`${at}`, MB, 0));
    for (const place of inside) room.ask(place, 0);
    const [more, first] = [room.queue("5", MB, 0), room.queue("new", MB, 0)];
    for (const place of inside.slice(10, 13)) room.leave(place);
    expect(room.ask(more, 1)).toBe("wait");
    expect([room.ask(first, 2), room.ask(more, 2)]).toEqual(["inside", "inside"]);
  });

  it("never holds more than its bytes, nor than an account may, and nobody waits while there is room for it", () => {
    const step = fc.record({
      what: fc.constantFrom("queue", "ask", "leave"),
      account: fc.constantFrom("a", "b", "c", "d", "e", "f"),
      size: fc.integer({ min: 65, max: 1024 }),
      at: fc.nat(60),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 150 }), (steps) => {
        const room = BodyRoom.forMedium();
        const places: Place[] = [];
        for (const { what, account, size, at } of steps) {
          const place = places[at % (places.length || 1)];
          if (what === "queue") places.push(room.queue(account, size * 1024, 0));
          else if (place && what === "leave") room.leave(place);
          else if (place) room.ask(place, 0);
          expect(room.heldBytes).toBeLessThanOrEqual(MEDIUM_ROOM_BYTES);
          for (const one of "abcdef") expect(room.heldBy(one)).toBeLessThanOrEqual(MEDIUM_BYTES_PER_ACCOUNT);
        }
        // All that wait have asked: the next newcomer is let in, or there is no room for it.
        for (const place of places) room.ask(place, 0);
        const freeBytes = MEDIUM_ROOM_BYTES - room.heldBytes;
        const waits = places.some((place) => place.bytes <= freeBytes && room.ask(place, 0) === "wait");
        if (!waits && freeBytes >= MB) expect(room.ask(room.queue("new", MB, 0), 0)).toBe("inside");
      }),
    );
  });

  it("lets the next one of the account in when one leaves, and refuses it after 5 s", () => {
    const room = BodyRoom.forMedium();
    const places = Array.from({ length: 10 }, () => room.queue("a", MB, 0));
    for (const place of places) room.ask(place, 0);
    room.leave(places[3] as Place);
    expect(places.slice(8).map((place) => room.ask(place, 900))).toEqual(["inside", "wait"]);
    for (let ms = 1_000; ms < LONGEST_WAIT_MS; ms += 500) {
      for (const place of places) if (place !== places[9]) room.stay(place, ms);
      expect(room.ask(places[9] as Place, ms)).toBe("wait");
    }
    expect(room.ask(places[9] as Place, LONGEST_WAIT_MS)).toBe("too_late");
  });
});
