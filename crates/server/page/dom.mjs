// Elements and their text. Text is only ever a text node, whatever is in it.

import { pieces } from "./visible.mjs";

/** The element of index.html with this id. */
export const byId = (id) => document.getElementById(id);

/** A new element with these attributes. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value);
  made.append(...children);
  return made;
}

/**
 * Text of others: what nobody would see is a mark. Left alone where it is there already, as somebody may be selecting it.
 * `cut`: so many characters at most. `lines`: after the mark of a line's end the line does end.
 */
export function show(parent, text, { cut = Infinity, lines = false } = {}) {
  const shown = text.length > cut ? `${text.slice(0, cut)}…` : text;
  if (SHOWN.get(parent) === shown) return;
  SHOWN.set(parent, shown);
  const nodes = pieces(shown).map((piece) => (piece.mark ? markOf(piece.text) : piece.text));
  parent.replaceChildren(...nodes.flatMap((node) => (lines && node.textContent === "\\n" ? [node, "\n"] : [node])));
}
const SHOWN = new WeakMap();

/** Text of this page's own. */
export function say(parent, words) {
  if (parent.textContent !== words) parent.textContent = words;
}

/** One class of a list, and no other. */
export function only(parent, one, classes) {
  for (const name of classes) parent.classList.toggle(name, name === one);
}

/** A character that nobody would see. */
export const markOf = (text) => element("span", { class: "mark" }, text);
