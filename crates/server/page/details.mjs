// What is known of the chosen process, beside its output. Shows what it is given; asks nobody.

import { byId, element, only, say, show } from "./dom.mjs";
import { timeOfDay } from "./list.mjs";
import { commandLine } from "./visible.mjs";
import { bytes, duration, ownEnd, state, took, tone, tree } from "./words.mjs";

const TONES = ["live", "ok", "bad", "alarm"];

export class Details {
  #pane = byId("process");
  #none = byId("nothing-chosen");
  #command = byId("command");
  #state = byId("state");
  #tree = byId("tree");
  #facts = byId("facts");
  #end = byId("end-process");

  constructor({ end }) {
    this.#end.addEventListener("click", end);
  }

  /** `ending`: its end was asked for and has not been answered. */
  show(status, { ending, unobeyed, now }) {
    this.#pane.hidden = false;
    this.#none.hidden = true;
    show(this.#command, commandLine(status.command), { lines: true });
    only(this.#pane, tone(status), TONES);
    say(this.#state, [state(status), ownEnd(status)].filter(Boolean).join("; "));
    const seen = tree(status);
    this.#tree.hidden = seen === undefined;
    show(this.#tree, seen?.words ?? "");
    this.#tree.classList.toggle("unconfirmed", seen !== undefined && !seen.confirmed);
    this.#end.disabled = ending || status.state !== "running";
    say(this.#end, ending ? "Stopping…" : "Stop");
    const { user_ms: user, system_ms: system, max_rss_bytes: memory } = status.usage ?? {};
    this.#fill([
      ["workspace", status.workspace_id],
      ["process", status.process_id],
      ["key", status.process_key],
      ["started", timeOfDay(status.started_at)],
      [status.state === "running" ? "runs for" : "took", duration(took(status, now))],
      ["output", bytes(status.output_total)],
      ["not obeyed", unobeyed > 0 ? `${unobeyed} terminal ${unobeyed === 1 ? "sequence" : "sequences"}` : undefined],
      ["timeout", status.timeout_ms ? duration(status.timeout_ms) : undefined],
      ["terminal", status.tty ? "yes" : undefined],
      ["sandbox", status.sandbox === "none" ? "NONE" : status.sandbox],
      ["processor", user === undefined ? undefined : duration(user + (system ?? 0))],
      ["memory", memory === undefined ? undefined : bytes(memory)],
      ...(status.policy_findings ?? []).map((finding) => ["policy", finding]),
    ]);
  }

  hide() {
    this.#pane.hidden = true;
    this.#none.hidden = false;
  }

  focusEnd() {
    this.#end.focus();
  }

  #fill(facts) {
    const told = facts.filter(([, value]) => value !== undefined);
    while (this.#facts.children.length > told.length) this.#facts.lastElementChild.remove();
    while (this.#facts.children.length < told.length) this.#facts.append(element("div", {}, element("dt"), element("dd")));
    told.forEach(([name, value], at) => {
      const [term, description] = this.#facts.children[at].children;
      say(term, name);
      show(description, value);
    });
  }
}
