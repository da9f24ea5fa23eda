// What becomes of output: node --test crates/server/page/tests

import assert from "node:assert/strict";
import { test } from "node:test";
import { MOST_OF_A_LINE, Terminal } from "../terminal.mjs";

/** All lines, each as its text, with marks between ‹ and ›. */
function lines(...chunks) {
  const terminal = new Terminal();
  const read = chunks.flatMap((chunk) => terminal.feed(chunk));
  read.push(...terminal.finish(), terminal.line);
  return { read, unobeyed: terminal.unobeyed, texts: read.map(shown) };
}
const shown = (line) => line.runs.map(({ text, mark }) => (mark ? `‹${text}›` : text)).join("");
const runs = (text) => lines(text).read[0].runs.map((run) => [run.text, run.classes]);

test("plain text is lines", () => {
  assert.deepEqual(lines("a\nb\r\n\n<script>c").texts, ["a", "b", "", "<script>c"]);
  assert.deepEqual(lines("a\tb").texts, ["a\tb"]);
});

test("colours are classes", () => {
  assert.deepEqual(runs("\x1b[31mred\x1b[0m plain \x1b[1;4;92mboth\x1b[m."), [
    ["red", "f1"], [" plain ", ""], ["both", "t-bold t-underline f10"], [".", ""],
  ]);
  assert.deepEqual(runs("\x1b[2;3;9;44mx\x1b[22;23;29;49my"), [["x", "t-dim t-italic t-strike b4"], ["y", ""]]);
  assert.deepEqual(runs("\x1b[107;30mx\x1b[39my"), [["x", "f0 b15"], ["y", "b15"]]);
});

test("other colours become the nearest that there is", () => {
  for (const [sequence, classes] of [
    ["38;5;3", "f3"], ["38;5;196", "f9"], ["38;5;244", "f8"], ["48;5;21", "b4"], ["38;2;254;254;254", "f15"],
    ["38;2;0;200;10;1", "t-bold f2"], ["38:5:9", "f9"], ["38:2::255:0:0", "f9"], ["38:2:255:0:0", "f9"], ["58;5;196;3", "t-italic"],
    ["38;5;999", ""], ["38", ""], ["38;9", ""], ["4:3", "t-underline"], ["4;4:0", ""], ["5;8;53", ""],
  ]) {
    assert.deepEqual(runs(`\x1b[${sequence}mx`), [["x", classes]], sequence);
  }
});

test("text is never hidden by its colour", () => {
  assert.deepEqual(runs("\x1b[8mx"), [["x", ""]]);
  assert.deepEqual(runs("\x1b[30;40mx"), [["x", ""]]);
  assert.deepEqual(runs("\x1b[7mx\x1b[31my\x1b[42mz\x1b[39mw"), [["x", "t-inverse"], ["y", "b1"], ["z", "f2 b1"], ["w", "f2 b7"]]);
  assert.deepEqual(runs("\x1b[7;47mx"), [["x", "b7"]]);
});

test("every other sequence is counted and not obeyed", () => {
  for (const sequence of [
    "\x1b[2J", "\x1b[H", "\x1b[1A", "\x1b[?25l", "\x1b[>4;1m", "\x1b[?4m", "\x1b[0 q", "\x1b]0;title\x07", "\x1b]52;c;aGk=\x1b\\",
    "\x1b]8;;http://evil.example\x1b\\", "\x1bP1$r0m\x1b\\", "\x1b_apc\x1b\\", "\x1bc", "\x1b7", "\x1bM", "\x1b(B", "\x1b#8", "\x1b\\",
  ]) {
    const { texts, unobeyed } = lines(`a${sequence}b`);
    assert.deepEqual([texts, unobeyed], [["ab"], 1], JSON.stringify(sequence));
  }
});

test("a sequence may be cut anywhere", () => {
  const text = "a\x1b[1;38;5;196mb\x1b]0;t\x1b\\c\x1b(Bd\x1b[0m\r\ne";
  const whole = lines(text);
  assert.deepEqual(whole.texts, ["abcd", "e"]);
  for (let at = 1; at < text.length; at += 1) {
    const cut = lines(text.slice(0, at), text.slice(at));
    assert.deepEqual(cut.read.map(({ runs: all }) => all.map(({ text: of, classes }) => [of, classes])), whole.read.map(({ runs: all }) => all.map(({ text: of, classes }) => [of, classes])), `cut at ${at}`);
    assert.equal(cut.unobeyed, 2);
  }
  assert.deepEqual(lines(...text).texts, whole.texts);
});

test("what only begins like a sequence hides nothing", () => {
  assert.deepEqual(lines("\x1b]0;never ended\nrm -rf /\n").texts, ["‹\\u{1b}›]0;never ended", "rm -rf /", ""]);
  assert.deepEqual(lines("\x1bPdata\x1b[31mred").texts, ["‹\\u{1b}›Pdatared"]);
  assert.deepEqual(lines("\x1b[12", "").texts, ["‹\\u{1b}›[12"]);
  assert.deepEqual(lines("\x1b").texts, ["‹\\u{1b}›"]);
  assert.deepEqual(lines("\x1b\x1b[31mx").texts, ["‹\\u{1b}›x"]);
  const long = `\x1b]${"x".repeat(5000)}\x07after`;
  assert.ok(lines(long).texts.join("").includes("xxx") && lines(long).texts.join("").endsWith("after"));
  const open = new Terminal();
  open.feed("\x1b]");
  for (let at = 0; at < 10; at += 1) open.feed("y".repeat(1000));
  assert.ok(shown(open.line).length > 9000, "nothing waits for ever");
  assert.equal(lines(`\x1b[${"1;".repeat(4000)}mz`).texts[0].slice(0, 12), "‹\\u{1b}›[1;1;".slice(0, 12));
});

test("a line that is written over says so", () => {
  const { read, texts } = lines("10%\r20%\r\x1b[K100%\ndone\r\n");
  assert.deepEqual(texts, ["100%", "done", ""]);
  assert.deepEqual(read.map((line) => line.overwritten), [true, false, false]);
  assert.deepEqual(lines("10%\r").texts, ["10%"], "what stands there stays until there is something else");
  assert.equal(lines("\rfirst").read[0].overwritten, false);
});

test("what nobody would see is a mark", () => {
  assert.deepEqual(lines("a\0b\x07c\x08d\x7fe\x9b31mf\u202eg\u200bh\ufeff\u{e0041}").texts, [
    "a‹\\u{0}›b‹\\u{7}›c‹\\u{8}›d‹\\u{7f}›e‹\\u{9b}›31mf‹\\u{202e}›g‹\\u{200b}›h‹\\u{feff}\\u{e0041}›",
  ]);
});

test("a line has an end, and no character is cut", () => {
  const { read } = lines("😀".repeat(MOST_OF_A_LINE));
  assert.ok(read.length >= 2 && read.every((line) => shown(line).isWellFormed?.() ?? true));
  assert.equal(read.map(shown).join(""), "😀".repeat(MOST_OF_A_LINE));
});

test("after a gap comes a new line", () => {
  const terminal = new Terminal();
  terminal.feed("half\x1b[3");
  assert.deepEqual(terminal.cut().map(shown), ["half‹\\u{1b}›[3"]);
  terminal.feed("rest");
  assert.equal(shown(terminal.line), "rest");
});
