// The list: each workspace with its processes. Shows what it is given and tells who was chosen or is to be ended; asks
// nobody.

import { byId, element, only, say, show } from "./dom.mjs";
import { commandLine, text, visible } from "./visible.mjs";
import { duration, ended, state, took, tone } from "./words.mjs";

const TONES = ["live", "ok", "bad", "alarm"];
const MOST_OF_A_COMMAND = 300;

export class List {
  #nav = byId("workspaces");
  #sections = new Map();
  #rows = new Map();
  #chosen;
  #choose;
  #endWorkspace;

  constructor({ choose, endWorkspace }) {
    [this.#choose, this.#endWorkspace] = [choose, endWorkspace];
    this.#nav.addEventListener("keydown", (event) => this.#key(event));
  }

  /** `workspaces` by id, `processes` as the server lists them. */
  show(workspaces, processes, now) {
    const ids = [...new Set([...Object.keys(workspaces), ...processes.map((status) => status.workspace_id)])].sort();
    for (const id of this.#sections.keys()) if (!ids.includes(id)) this.#forget(id);
    const focused = document.activeElement;
    for (const id of ids) {
      const section = this.#section(id);
      this.#describe(section, workspaces[id]);
      const own = processes.filter((status) => status.workspace_id === id).sort(latestFirst);
      const live = own.filter((status) => status.state === "running").length;
      say(section.count, live > 0 ? `${live} running` : "nothing running");
      section.end.disabled = live === 0;
      this.#fill(section, own, now);
    }
    // A row that was moved has lost the focus.
    if (focused !== document.activeElement && focused?.isConnected) focused.focus({ preventScroll: true });
    this.#tabStop();
  }

  /** Marks the chosen one. */
  mark(id) {
    this.#chosen = id;
    for (const [of, row] of this.#rows) row.item.setAttribute("aria-selected", String(of === id));
    this.#tabStop();
  }

  /** Puts the focus on the chosen row, or the first one. */
  focus() {
    this.#items().find((item) => item.tabIndex === 0)?.focus();
  }

  #section(id) {
    if (this.#sections.has(id)) return this.#sections.get(id);
    const heading = element("h2", { id: `workspace-${id}` });
    show(heading, id);
    const count = element("span", { class: "count" });
    const about = element("p", { class: "about" });
    const root = element("p", { class: "root" });
    const end = element("button", { type: "button", class: "end" }, "Stop workspace…");
    end.setAttribute("aria-label", `Stop everything in the workspace ${visible(id)}`);
    end.addEventListener("click", () => this.#endWorkspace(id));
    const rows = element("ul", { role: "listbox", "aria-labelledby": heading.id });
    const none = element("p", { class: "none" }, "No processes yet.");
    const head = element("div", { class: "head" }, heading, count, end);
    const all = element("section", { class: "workspace", "aria-labelledby": heading.id }, head, root, about, rows, none);
    const section = { all, count, about, root, end, rows, none };
    this.#sections.set(id, section);
    const after = [...this.#sections.keys()].sort();
    const next = after[after.indexOf(id) + 1];
    this.#nav.insertBefore(all, next === undefined ? null : this.#sections.get(next).all);
    return section;
  }

  #describe(section, info) {
    if (!info) return;
    show(section.root, text(info.root));
    const { sandbox, network, network_enforced: enforced, timeout_ms: timeout } = info.execution;
    const facts = [
      info.profile === "read-only" ? "read-only" : "writable",
      sandbox === "none" ? "NO SANDBOX" : `sandbox ${sandbox}`,
      `network ${network.replaceAll("_", " ")}${enforced ? "" : " (not enforced)"}`,
    ];
    if (timeout) facts.push(`timeout ${duration(timeout)}`);
    show(section.about, facts.join(" · "));
    section.about.classList.toggle("open", sandbox === "none" || !enforced);
  }

  #fill(section, processes, now) {
    section.none.hidden = processes.length > 0;
    const kept = new Set(processes.map((status) => status.process_id));
    for (const item of [...section.rows.children]) {
      if (kept.has(item.dataset.id)) continue;
      this.#rows.delete(item.dataset.id);
      item.remove();
    }
    processes.forEach((status, at) => {
      const row = this.#row(status);
      if (section.rows.children[at] !== row.item) section.rows.insertBefore(row.item, section.rows.children[at] ?? null);
      only(row.item, tone(status), TONES);
      say(row.state, ended(status));
      say(row.time, `${timeOfDay(status.started_at)} · ${duration(took(status, now))}`);
    });
  }

  #row(status) {
    const id = status.process_id;
    if (this.#rows.has(id)) return this.#rows.get(id);
    const command = element("span", { class: "command" });
    show(command, commandLine(status.command), { cut: MOST_OF_A_COMMAND });
    const [how, time] = [element("span", { class: "state" }), element("span", { class: "time" })];
    const item = element("li", { role: "option", tabindex: "-1", "aria-selected": "false" }, command, how, time);
    item.dataset.id = id;
    item.addEventListener("click", () => this.#choose(id));
    const row = { item, state: how, time };
    this.#rows.set(id, row);
    return row;
  }

  #forget(id) {
    const section = this.#sections.get(id);
    for (const item of section.rows.children) this.#rows.delete(item.dataset.id);
    section.all.remove();
    this.#sections.delete(id);
  }

  #items() {
    return [...this.#nav.querySelectorAll("[role=option]")];
  }

  /** One row at a time can be reached by the tab key: the focused, else the chosen, else the first one. */
  #tabStop() {
    const items = this.#items();
    const stop = items.find((item) => item === document.activeElement)
      ?? items.find((item) => item.dataset.id === this.#chosen) ?? items[0];
    for (const item of items) item.tabIndex = item === stop ? 0 : -1;
  }

  #key(event) {
    const at = this.#items().indexOf(document.activeElement);
    if (at < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    const items = this.#items();
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: items.length - 1 }[event.key];
    if (to !== undefined) {
      items[Math.min(Math.max(to, 0), items.length - 1)].focus();
      this.#tabStop();
    } else if (event.key === "Enter" || event.key === " ") {
      this.#choose(document.activeElement.dataset.id);
    } else {
      return;
    }
    event.preventDefault();
  }
}

/** Live ones first, and of these and of the ended ones the latest. */
function latestFirst(a, b) {
  const live = (status) => (status.state === "running" ? 1 : 0);
  const when = (status) => Date.parse(status.ended_at ?? status.started_at);
  return live(b) - live(a) || when(b) - when(a) || (a.process_id < b.process_id ? -1 : 1);
}

/** In the reader's own way of writing it; with the day where that is not today. */
export function timeOfDay(at) {
  const time = new Date(at);
  const today = time.toDateString() === new Date().toDateString();
  return today ? time.toLocaleTimeString() : time.toLocaleString();
}
