// Reads a command's output as lines of coloured text. Knows no page.
//
// A terminal would obey what it reads; this only colours. Every other escape sequence (the cursor, titles, links, the
// clipboard, modes) is left out and counted, and what only looks like the beginning of one is shown. `\r` starts the line
// anew, as progress bars mean it, and the line says that something was written over. Everything else that nobody would
// see is a mark, as in visible.mjs.
//
// A line: `{ runs: [{ text, classes, mark }], overwritten }`.

import { Style } from "./style.mjs";
import { escaped, special } from "./visible.mjs";

/** Characters of a line; the rest goes on in the next one. */
export const MOST_OF_A_LINE = 20_000;
/** Characters of a sequence; what is longer is none. */
const MOST_OF_A_SEQUENCE = 4096;

const CONTROL = /\x1b\[([0-?]*)([ -/]*)([@-~])/y;
const CONTROL_BEGINS = /\x1b\[[0-?]*[ -/]*$/y;
// Those with a text in them end with ST, or with BEL; no text has a line's end or another control character in it.
const STRING = /\x1b[\]PX^_][^\x00-\x1f\x7f-\x9f]*(?:\x07|\x1b\\|\x9c)/y;
const STRING_BEGINS = /\x1b[\]PX^_][^\x00-\x1f\x7f-\x9f]*\x1b?$/y;
const SHORT = /\x1b(?:[ -/]+[0-~]|[0-OQ-WYZ\\`-~])/y;
const SHORT_BEGINS = /\x1b[ -/]*$/y;

export class Terminal {
  /** Sequences that were not obeyed. */
  unobeyed = 0;
  /** The line that is not finished. */
  line;
  #style = new Style();
  #classes = "";
  #pending = "";
  #length;
  #restart;

  constructor() {
    this.#begin();
  }

  /** Reads on; the lines that are finished by this. A sequence may be cut anywhere. */
  feed(text) {
    return this.#read(this.#pending + text, false);
  }

  /** There is no more: what waits for its rest is shown as it is. */
  finish() {
    return this.#read(this.#pending, true);
  }

  /** Something is missing here: what comes next begins a new line. */
  cut() {
    const finished = this.finish();
    if (this.#length > 0) this.#end(finished);
    return finished;
  }

  #read(text, whole) {
    const finished = [];
    const found = special();
    let from = 0;
    this.#pending = "";
    for (;;) {
      found.lastIndex = from;
      const match = found.exec(text);
      const to = match ? match.index : text.length;
      this.#add(finished, text.slice(from, to), false);
      if (!match) return finished;
      from = to + match[0].length;
      if (match[0] === "\n") {
        this.#end(finished);
      } else if (match[0] === "\r") {
        this.#restart = true;
      } else if (match[0] === "\t") {
        this.#add(finished, "\t", false);
      } else if (match[0] === "\x1b") {
        const sequence = this.#sequence(text, to);
        if (sequence === undefined && !whole) {
          this.#pending = text.slice(to);
          return finished;
        }
        if (sequence) from = to + sequence;
        else this.#add(finished, escaped("\x1b"), true);
      } else {
        this.#add(finished, escaped(match[0]), true);
      }
    }
  }

  /** The length of the sequence there, 0 where there is none; `undefined`: that cannot be said yet. */
  #sequence(text, at) {
    const here = (form) => {
      form.lastIndex = at;
      return form.exec(text);
    };
    const control = here(CONTROL);
    if (control && control[0].length <= MOST_OF_A_SEQUENCE) {
      const [all, parameters, between, final] = control;
      if (final === "m" && between === "" && !/[<=>?]/.test(parameters)) {
        this.#style.set(parameters);
        this.#classes = this.#style.classes;
      } else {
        this.unobeyed += 1;
      }
      return all.length;
    }
    const other = here(STRING) ?? here(SHORT);
    if (other && other[0].length <= MOST_OF_A_SEQUENCE) {
      this.unobeyed += 1;
      return other[0].length;
    }
    const begins = here(CONTROL_BEGINS) ?? here(STRING_BEGINS) ?? here(SHORT_BEGINS);
    return begins && begins[0].length <= MOST_OF_A_SEQUENCE ? undefined : 0;
  }

  #add(finished, text, mark) {
    if (text === "") return;
    if (this.#restart) {
      const overwritten = this.line.overwritten || this.#length > 0;
      this.#begin();
      this.line.overwritten = overwritten;
    }
    for (let rest = text; rest !== "";) {
      if (this.#length >= MOST_OF_A_LINE) this.#end(finished);
      let part = rest.slice(0, MOST_OF_A_LINE - this.#length);
      // Not between the two halves of one character.
      if (part.length < rest.length && /[\ud800-\udbff]$/.test(part)) part = rest.slice(0, part.length + 1);
      this.#append(part, mark);
      rest = rest.slice(part.length);
    }
  }

  #append(text, mark) {
    const last = this.line.runs.at(-1);
    if (last && last.classes === this.#classes && last.mark === mark) last.text += text;
    else this.line.runs.push({ text, classes: this.#classes, mark });
    this.#length += text.length;
  }

  #end(finished) {
    finished.push(this.line);
    this.#begin();
  }

  #begin() {
    this.line = { runs: [], overwritten: false };
    this.#length = 0;
    this.#restart = false;
  }
}
