// Shows lines of output, the latest ones, and stays at their end while somebody follows it. Knows no process.
//
// Bounded: what is older than the last so many lines or characters is dropped, in blocks, and told.

import { byId, element, markOf, say } from "./dom.mjs";

const MOST_CHARACTERS = 1 << 20;
const MOST_LINES = 10_000;
const LINES_OF_A_BLOCK = 200;
const CHARACTERS_OF_A_BLOCK = 1 << 17;
/** What an element costs, in characters: a command may give each character a colour of its own. */
const ELEMENT = 32;
/** So near to the end is at the end. */
const NEAR = 24;

export class Output {
  #box = byId("output");
  #follow = byId("follow");
  #blocks = [];
  #current;
  #dropped;
  #following;

  constructor() {
    this.#box.addEventListener("scroll", () => this.#scrolled());
    this.#follow.addEventListener("click", () => this.setFollowing(!this.#following));
    this.clear();
  }

  clear() {
    this.#blocks = [];
    this.#dropped = 0;
    this.#current = element("div", { class: "line" });
    this.#box.replaceChildren(this.#current);
    this.setFollowing(true);
  }

  /** Finished lines, and the one that is not. */
  add(lines, current) {
    for (const line of lines) {
      const { block, list } = this.#last();
      const shown = element("div", { class: "line" });
      fill(shown, line);
      list.append(shown);
      block.lines += 1;
      block.characters += line.runs.reduce((sum, run) => sum + run.text.length + ELEMENT, ELEMENT);
    }
    fill(this.#current, current);
    this.#drop();
    if (this.#following) this.#toEnd();
  }

  /** A remark of this page between the lines. */
  note(words) {
    const { block, list } = this.#last();
    list.append(element("div", { class: "note" }, `[${words}]`));
    block.lines += 1;
    if (this.#following) this.#toEnd();
  }

  setFollowing(following) {
    this.#following = following;
    this.#follow.setAttribute("aria-pressed", String(following));
    if (following) this.#toEnd();
  }

  #last() {
    const last = this.#blocks.at(-1);
    if (!last || last.lines >= LINES_OF_A_BLOCK || last.characters >= CHARACTERS_OF_A_BLOCK) {
      const list = element("div", { class: "block" });
      this.#current.before(list);
      this.#blocks.push({ list, lines: 0, characters: 0 });
    }
    const block = this.#blocks.at(-1);
    return { block, list: block.list };
  }

  #drop() {
    const sum = (of) => this.#blocks.reduce((total, block) => total + block[of], 0);
    while (this.#blocks.length > 1 && (sum("lines") > MOST_LINES || sum("characters") > MOST_CHARACTERS)) {
      const [oldest] = this.#blocks.splice(0, 1);
      oldest.list.remove();
      this.#dropped += oldest.lines;
    }
    if (this.#dropped === 0) return;
    let told = this.#box.firstElementChild;
    if (!told.classList.contains("dropped")) {
      told = element("div", { class: "note dropped" });
      this.#box.prepend(told);
    }
    say(told, `[${this.#dropped} older lines are no longer shown here]`);
  }

  #toEnd() {
    this.#box.scrollTop = this.#box.scrollHeight;
  }

  /** Whoever scrolls up wants to read; whoever scrolls to the end wants to follow. */
  #scrolled() {
    const following = this.#box.scrollHeight - this.#box.scrollTop - this.#box.clientHeight < NEAR;
    if (following === this.#following) return;
    this.#following = following;
    this.#follow.setAttribute("aria-pressed", String(following));
  }
}

function fill(shown, line) {
  const runs = line.runs.map(({ text, classes, mark }) => {
    if (!mark && classes === "") return text;
    const run = mark ? markOf(text) : element("span", {}, text);
    if (classes !== "") run.classList.add(...classes.split(" "));
    return run;
  });
  shown.replaceChildren(...runs);
  shown.classList.toggle("overwritten", line.overwritten);
  if (line.overwritten) shown.setAttribute("title", "This line was written over, as progress bars do it.");
  else shown.removeAttribute("title");
}
