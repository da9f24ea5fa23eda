// How things are said: node --test crates/server/page/tests

import assert from "node:assert/strict";
import { test } from "node:test";
import { Trouble, messages, result } from "../answer.mjs";
import { commandLine, pieces, text, visible } from "../visible.mjs";
import { wrong } from "../token.mjs";
import { bytes, duration, ended, endedAll, ownEnd, took, tone } from "../words.mjs";

const seenGone = { confirmed: true, leftovers: 0, took_ms: 1 };
const exited = (more) => ({ state: "exited", ended_by: "command", exit_code: 0, tree: seenGone, ...more });

test("how it ended and whether anything is left are said", () => {
  for (const [status, words, colour] of [
    [{ state: "running", phase: "starting" }, "starting", "live"],
    [exited({}), "exited with 0, nothing left", "ok"],
    [exited({ exit_code: 3 }), "exited with 3, nothing left", "bad"],
    [exited({ exit_code: undefined, signal: { number: 9, name: "KILL" } }), "died of signal KILL, nothing left", "bad"],
    [exited({ exit_code: undefined, signal: { number: 40 } }), "died of signal 40, nothing left", "bad"],
    [exited({ ended_by: "terminate" }), "ended by terminate, nothing left", "bad"],
    [exited({ ended_by: "limit", limit: "memory" }), "ended by the limit memory, nothing left", "bad"],
    [exited({ tree: { confirmed: true, leftovers: 2 } }), "exited with 0, nothing left: 2 processes that it left running were ended", "ok"],
    [exited({ ended_by: "something_new" }), "ended, and how was not seen, nothing left", "bad"],
  ]) {
    assert.deepEqual([ended(status), tone(status)], [words, colour]);
  }
});

test("an end that was not seen stands out", () => {
  for (const [tree, words] of [
    [{ confirmed: false, leftovers: 0, detail: "the host is frozen" }, "(the host is frozen)"],
    [{ confirmed: false, leftovers: 0 }, "(the time for it ran out)"],
  ]) {
    assert.equal(tone(exited({ tree })), "alarm");
    assert.ok(ended(exited({ tree })).includes("NOT CONFIRMED") && ended(exited({ tree })).includes(words));
  }
  assert.equal(tone(exited({ ended_by: "helper_lost" })), "alarm");
  assert.ok(ended(exited({ tree: undefined })).includes("not told"));
  assert.equal(endedAll([exited({}), exited({})]), "2 processes ended, nothing left.");
  assert.ok(endedAll([exited({}), exited({ tree: { confirmed: false } })]).includes("of 1 it was NOT CONFIRMED"));
});

test("the command's own end is told beside another one", () => {
  assert.equal(ownEnd(exited({ ended_by: "workspace", exit_code: 0 })), "the command itself exited with 0");
  assert.equal(ownEnd({ state: "running", exit_code: 1 }), "the command itself exited with 1");
  assert.equal(ownEnd(exited({})), undefined);
  assert.equal(ownEnd({ state: "running" }), undefined);
});

test("sizes and times are as the command line writes them", () => {
  assert.deepEqual([0, 999, 1000, 1500, 12_345, 60_000, 123_000, 3_900_000, 183_600_000].map(duration), ["0ms", "999ms", "1s", "1.5s", "12s", "1m", "2m 3s", "1h 5m", "2d 3h"]);
  assert.deepEqual([0, 1023, 1024, 1_572_864, 65_536, 1_048_575].map(bytes), ["0 B", "1023 B", "1 KiB", "1.5 MiB", "64 KiB", "1 MiB"]);
  const at = Date.parse("2026-01-02T03:04:05Z");
  assert.equal(took({ started_at: "2026-01-02T03:04:00Z" }, at), 5000);
  assert.equal(took({ started_at: "2026-01-02T03:04:09Z" }, at), 0);
  assert.equal(took({ started_at: "2026-01-02T03:04:00Z", usage: { wall_ms: 7 } }, at), 7);
});

test("a command is shown as a shell would take it, and nothing in it is obeyed", () => {
  assert.equal(commandLine(["make", "-j4", "all tests", "it's", ""]), "make -j4 'all tests' 'it'\\''s' ''");
  assert.equal(commandLine([{ base64: "/w==" }]), "'\ufffd'");
  assert.equal(text({ base64: "aGk=" }), "hi");
  assert.equal(visible("a\x1b[2J\n\u202e\u{e0041}한"), "a\\u{1b}[2J\\n\\u{202e}\\u{e0041}한");
  assert.deepEqual(pieces("\\u{1b}\x1bx"), [
    { text: "\\u{1b}", mark: false }, { text: "\\u{1b}", mark: true }, { text: "x", mark: false },
  ]);
});

test("an answer comes as JSON or as events", () => {
  const message = { jsonrpc: "2.0", id: 7, result: { structuredContent: { a: "x\n\ny" } } };
  const sse = "text/event-stream";
  assert.deepEqual(result(200, "application/json", JSON.stringify(message), 7), { a: "x\n\ny" });
  for (const body of [
    `data: ${JSON.stringify(message)}\n\n`,
    `: alive\n\nid: 0\nretry: 3000\ndata:\n\ndata: {"method":"notifications/message"}\n\nevent: message\ndata:${JSON.stringify(message)}\n\n`,
    `data: ${JSON.stringify(message)}\r\n\r\n`,
  ]) {
    assert.deepEqual(result(200, sse, body, 7), { a: "x\n\ny" }, body);
  }
  assert.deepEqual(messages("data: [1,\ndata: 2]\n\n", sse), [[1, 2]]);
});

test("what goes wrong is told with its remedy", () => {
  const trouble = (...answer) => {
    try {
      return result(...answer);
    } catch (error) {
      assert.ok(error instanceof Trouble);
      return [error.kind, error.message, error.remedy, error.code];
    }
  };
  assert.equal(trouble(401, "text/plain", "send the header", 1)[0], "token");
  assert.deepEqual(trouble(403, "text/plain", "this Host is not ours\n", 1).slice(0, 2), ["server", "The server answered with status 403: this Host is not ours"]);
  assert.equal(trouble(200, "text/event-stream", "", 1)[1], "The server answered with status 200: it sent no answer");
  const refused = { id: 1, result: { isError: true, content: [], structuredContent: { code: "PROCESS_NOT_FOUND", message: "find it", hint: "list them" } } };
  assert.deepEqual(trouble(200, "application/json", JSON.stringify(refused), 1), ["tool", "The Runner failed to find it (PROCESS_NOT_FOUND).", "list them", "PROCESS_NOT_FOUND"]);
  const wrongCall = { id: 1, error: { code: -32602, message: "there is no tool" } };
  assert.equal(trouble(200, "application/json", JSON.stringify(wrongCall), 1)[1], "The server refused: there is no tool.");
});

test("what cannot be a token is told before it is sent", () => {
  assert.equal(wrong("a-token/0123+="), undefined);
  assert.ok(wrong("") && wrong("a b") && wrong("zwei\u202e"));
});
