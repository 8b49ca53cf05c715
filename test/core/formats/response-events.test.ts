/** The order of a streamed response's events, whatever its upstream sends of it. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ResponseEvents } from "../../../src/core/formats/response-events.ts";

type Event = Record<string, unknown> & { type: string };

const FACTS = { model: "m", createdAt: 7 };

/** What a client gets of these events. */
function completed(events: readonly Event[]): Event[] {
  const machine = new ResponseEvents(FACTS);
  return events.flatMap((event): Event[] => {
    const added = machine.next(event);
    const passes: Event = added?.data
      ? JSON.parse(added.data)
      : added?.members
        ? JSON.parse(`{${added.members},${JSON.stringify(event).slice(1)}`)
        : added?.number === undefined
          ? event
          : { ...event, sequence_number: added.number };
    return [...((added?.before ?? []) as Event[]), ...(added?.drops ? [] : [passes])];
  });
}

const created = { type: "response.created", response: { id: "resp_1", status: "in_progress" } };
const delta = (text: string) => ({ type: "response.output_text.delta", delta: text });
const message = (text: string) => ({ type: "message", role: "assistant", content: [{ type: "output_text", text }] });
const end = (output: unknown, more: object = {}) => ({
  type: "response.completed",
  response: { id: "resp_1", object: "response", created_at: 1, model: "m", status: "completed", output, ...more },
});
const least = [created, delta("He"), delta("llo"), end([message("Hello")])];
const whole = completed(least);
const types = (events: readonly Event[]) => events.map(({ type }) => type.replace("response.", ""));

/** Every item and part is opened once, before what is said of it, and closed once, after that. */
function expectInOrder(events: readonly Event[]): void {
  const open = new Set<string>();
  const closed = new Set<string>();
  for (const [at, event] of events.entries()) {
    expect(event.sequence_number).toBe(at);
    if (event.output_index === undefined) continue;
    const item = `${event.output_index}`;
    const part = `${item} ${event.content_index ?? ""} ${event.summary_index ?? ""}`;
    if (event.type === "response.output_item.added") {
      expect(open.has(item)).toBe(false);
      open.add(item);
    } else if (event.type.endsWith("_part.added")) {
      expect([open.has(item), open.has(part)]).toEqual([true, false]);
      open.add(part);
    } else if (event.type === "response.output_item.done") {
      expect([open.has(item), closed.has(item)]).toEqual([true, false]);
      closed.add(item);
    } else if (event.content_index !== undefined || event.summary_index !== undefined) {
      expect([open.has(part), closed.has(part), closed.has(item)]).toEqual([true, false, false]);
      if (event.type.endsWith("_part.done")) closed.add(part);
    }
  }
  expect([...open].filter((name) => !closed.has(name))).toEqual([]);
}

test("the contract's three events become OpenAI's whole order", () => {
  expect(types(whole)).toEqual([
    "created",
    "in_progress",
    "output_item.added",
    "content_part.added",
    "output_text.delta",
    "output_text.delta",
    "output_text.done",
    "content_part.done",
    "output_item.done",
    "completed",
  ]);
  expectInOrder(whole);
  const at = { item_id: "msg_1_0", output_index: 0, content_index: 0 };
  expect(whole[0]?.response).toEqual({
    ...{ id: "resp_1", status: "in_progress", object: "response", created_at: 7, model: "m", output: [] },
  });
  expect(whole[2]).toMatchObject({ item: { id: "msg_1_0", status: "in_progress", role: "assistant", content: [] } });
  expect(whole[3]).toMatchObject({ ...at, part: { type: "output_text", text: "", annotations: [] } });
  expect(whole[4]).toEqual({ ...delta("He"), ...at, sequence_number: 4 });
  expect(whole[6]).toMatchObject({ ...at, text: "Hello" });
  const item = { ...message("Hello"), id: "msg_1_0", status: "completed" };
  const content = [{ type: "output_text", text: "Hello", annotations: [] }];
  expect(whole[8]).toMatchObject({ output_index: 0, item: { ...item, content } });
  expect(whole[9]?.response).toMatchObject({ id: "resp_1", output: [{ ...item, content }] });
});

test("what is whole passes as it is, every event of it", () => {
  const machine = new ResponseEvents(FACTS);
  for (const event of whole) expect(machine.next(event)).toBeUndefined();
});

test("whichever events are missing, they are added, and the order is whole", () => {
  const middle = whole.slice(1, -1).map((_, at) => at + 1);
  fc.assert(
    fc.property(fc.subarray(middle), (kept) => {
      const sent = [whole[0] as Event, ...kept.map((at) => whole[at] as Event), whole.at(-1) as Event];
      for (const events of [sent, sent.map(({ sequence_number: _, ...event }) => event as Event)]) {
        const got = completed(events);
        const text = got.filter(({ type }) => type === "response.output_text.delta").map((event) => event.delta);
        // A delta that is missing beside one that came cannot be told from one that was never made.
        if (kept.includes(4) === kept.includes(5)) expect(text.join("")).toBe("Hello");
        const numbers = got.map(({ sequence_number }) => Number(sequence_number));
        expect(numbers.every((number, at) => at === 0 || number > (numbers[at - 1] as number))).toBe(true);
        expectInOrder(got.map((event, at) => ({ ...event, sequence_number: at })));
        const others = (all: readonly Event[]) => types(all).filter((type) => type !== "output_text.delta");
        expect(others(got)).toEqual(others(whole));
      }
    }),
  );
});

test("out of order or twice: what was sent comes, in its order, and nothing fails", () => {
  const events = fc.constantFrom<Event>(...whole, ...least, { type: "response.odd.event" }, { type: "odd" });
  fc.assert(
    fc.property(fc.array(events, { maxLength: 40 }), (sent) => {
      let at = 0;
      for (const event of completed(sent)) {
        const next = sent[at];
        if (next && event.type === next.type && (event.delta === next.delta || next.delta === undefined)) at++;
      }
      expect(at).toBe(sent.length);
    }),
  );
});

describe("items of other kinds", () => {
  const call = { type: "function_call", call_id: "call_1", name: "weather", arguments: '{"a":1}' };
  test("a call that comes only at the end is announced, said and closed", () => {
    const got = completed([created, end([call])]);
    expect(types(got).slice(2, -1)).toEqual([
      "output_item.added",
      "function_call_arguments.delta",
      "function_call_arguments.done",
      "output_item.done",
    ]);
    expect(got[2]).toMatchObject({ item: { ...call, arguments: "", status: "in_progress", id: "fc_1_0" } });
    expect(got[3]).toMatchObject({ item_id: "fc_1_0", output_index: 0, delta: call.arguments });
    expect(got[5]).toMatchObject({ item: { ...call, id: "fc_1_0", status: "completed" } });
    expectInOrder(got);
  });

  test("arguments of a call that nobody announced wait for the call", () => {
    const got = completed([created, { type: "response.function_call_arguments.delta", delta: "{" }, end([call])]);
    expect(got.filter(({ delta }) => delta !== undefined).map(({ delta }) => delta)).toEqual([call.arguments]);
    expectInOrder(got);
  });

  test("arguments of a call that was announced pass with their place", () => {
    const announced = { type: "response.output_item.added", item: { ...call, arguments: "" } };
    const said = [announced, { type: "response.function_call_arguments.delta", delta: call.arguments }];
    const got = completed([created, ...said, end([call])]);
    expect(got.filter(({ delta }) => delta !== undefined)).toHaveLength(1);
    expect(got[3]).toMatchObject({ item_id: "fc_1_0", output_index: 0 });
    expectInOrder(got);
  });

  test("reasoning, its summary, a refusal and words are items and parts of their own", () => {
    const reasoning = { type: "reasoning", summary: [{ type: "summary_text", text: "so" }] };
    const content = [
      { type: "output_text", text: "a" },
      { type: "refusal", refusal: "no" },
    ];
    const said = [
      { type: "response.reasoning_summary_text.delta", delta: "so" },
      delta("a"),
      { type: "response.refusal.delta", delta: "no" },
    ];
    const got = completed([created, ...said, end([reasoning, { ...message(""), content }])]);
    expectInOrder(got);
    const places = got.filter((event) => event.delta !== undefined);
    expect(places).toMatchObject([
      { item_id: "rs_1_0", output_index: 0, summary_index: 0 },
      { item_id: "msg_1_1", output_index: 1, content_index: 0 },
      { item_id: "msg_1_1", output_index: 1, content_index: 1 },
    ]);
    expect(types(got)).toContain("reasoning_summary_part.added");
    expect(got.find(({ type }) => type === "response.refusal.done")).toMatchObject({ refusal: "no" });
  });

  test("an incomplete response closes its items as incomplete", () => {
    const last = { ...end([message("Hel")]), type: "response.incomplete" };
    const got = completed([created, delta("Hel"), { ...last, response: { ...last.response, status: "incomplete" } }]);
    expect(got.at(-2)).toMatchObject({ type: "response.output_item.done", item: { status: "incomplete" } });
    expectInOrder(got);
  });
});

test("ids that deltas carry are kept, and numbers are moved by what is added", () => {
  const at = { item_id: "msg_x", output_index: 0, content_index: 0 };
  const sent = [
    { ...created, sequence_number: 0 },
    { ...delta("Hello"), ...at, sequence_number: 1 },
    { ...end([{ ...message("Hello"), id: "msg_x" }]), sequence_number: 2 },
  ];
  const got = completed(sent);
  expectInOrder(got);
  expect(got[2]).toMatchObject({ item: { id: "msg_x" } });
  expect(got.at(-1)).toMatchObject({ response: { output: [{ id: "msg_x" }] } });
});

test("an item is closed under the id that it was announced with", () => {
  const got = completed([created, delta("Hello"), end([{ ...message("Hello"), id: "msg_late" }])]);
  const ids = got.flatMap((event) => [event.item_id, (event.item as { id?: string })?.id]).filter(Boolean);
  expect(new Set(ids)).toEqual(new Set(["msg_1_0"]));
  expect(got.at(-1)).toMatchObject({ response: { output: [{ id: "msg_1_0" }] } });
});

test("a last event without output gets what was said", () => {
  const got = completed([created, delta("He"), delta("llo"), end(undefined)]);
  expect(got.at(-1)).toMatchObject({ response: { output: [{ id: "msg_1_0", content: [{ text: "Hello" }] }] } });
  expectInOrder(got);
});

test("past 256 kB of words the events that repeat them are left out, and the last event has all", () => {
  const text = "x".repeat(300_000);
  const got = completed([created, delta(text.slice(0, 150_000)), delta(text.slice(150_000)), end([message(text)])]);
  expect(types(got).slice(-3)).toEqual(["output_text.delta", "output_text.delta", "completed"]);
  expect(got.at(-1)).toMatchObject({ response: { output: [{ id: "msg_1_0", status: "completed" }] } });
});

test("a thousand items and parts are followed; then a stream passes as it comes", () => {
  const items = Array.from({ length: 3_000 }, (_, output_index) => ({ ...delta("a"), output_index }));
  const got = completed([created, ...items, end([])]);
  expect(got.length).toBeLessThan(3_000 + 3_000);
  expect(got.filter((event) => event.delta !== undefined)).toHaveLength(3_000);
});

test("a stream that does not tell its response's id passes as it is", () => {
  const sent = [{ type: "response.created", response: {} }, delta("a"), { type: "response.completed", response: {} }];
  expect(completed(sent)).toEqual(sent);
  expect(completed([delta("a"), ...least])).toEqual([delta("a"), ...least]);
});
