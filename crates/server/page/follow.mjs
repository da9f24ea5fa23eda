// Reads the output of one process as it comes and hands it on as lines. Knows no element of the page.
//
// A look from aside: a command that waits for its output to be read is not let on by it (`peek`).

import { Terminal } from "./terminal.mjs";
import { bytes } from "./words.mjs";

const READ_BYTES = 256 * 1024;
/** What is further behind is passed over: only the latest is kept here. */
const MOST_BEHIND = 1 << 20;
const WAIT_MS = 20_000;
/** So long what comes is gathered, so that a flood does not keep the page busy. */
const PAUSE_MS = 60;

export class Follower {
  #client;
  #output;
  #id;
  #cursor = 0;
  #terminal = new Terminal();
  #stopped;

  /** Nothing is read before `start`. `total`: bytes that there are already. */
  constructor(client, output, id, total) {
    [this.#client, this.#output, this.#id] = [client, output, id];
    /** Nothing more comes, or can be had. */
    this.ended = false;
    this.#passOver(total);
  }

  get id() {
    return this.#id;
  }

  get unobeyed() {
    return this.#terminal.unobeyed;
  }

  /** Reads until the end, until `stop`, or until something goes wrong, which is thrown. Goes on where it was. */
  async start() {
    if (this.ended || this.#stopped) return;
    const stopped = new AbortController();
    this.#stopped = stopped;
    try {
      while (!this.ended && !stopped.signal.aborted) {
        if (await this.#read(stopped.signal)) await pause(PAUSE_MS);
      }
    } catch (error) {
      if (!stopped.signal.aborted) throw error;
    } finally {
      if (this.#stopped === stopped) this.#stopped = undefined;
    }
  }

  stop() {
    this.#stopped?.abort();
    this.#stopped = undefined;
  }

  /** Whether there was anything. */
  async #read(signal) {
    const asked = { process_id: this.#id, cursor: this.#cursor, wait_ms: WAIT_MS, max_bytes: READ_BYTES, peek: true };
    const reply = await this.#client.call("read_process", asked, signal);
    if (signal.aborted) return false;
    if (reply.output_lost) this.#gap(`${bytes(reply.retained_from - this.#cursor)} lost: the Runner no longer keeps them`);
    this.#cursor = reply.cursor;
    const lines = this.#terminal.feed(reply.chunk);
    if (reply.eof) lines.push(...this.#terminal.finish());
    this.#output.add(lines, this.#terminal.line);
    this.ended = reply.eof;
    if (!reply.eof) this.#passOver(reply.total);
    return reply.chunk !== "";
  }

  #passOver(total) {
    const behind = total - this.#cursor;
    if (behind <= MOST_BEHIND) return;
    this.#gap(`${bytes(behind - READ_BYTES)} passed over: only the latest output is shown here`);
    this.#cursor = total - READ_BYTES;
  }

  #gap(words) {
    this.#output.add(this.#terminal.cut(), this.#terminal.line);
    this.#output.note(words);
  }
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
