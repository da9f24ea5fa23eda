// Says what is wrong: one banner while the server cannot be asked, and remarks that stay until they are put away.

import { byId, element, say, show } from "./dom.mjs";

const MOST_NOTICES = 4;

/** The banner. `seconds` until the next try. */
export function lost(trouble, seconds) {
  byId("trouble").hidden = false;
  show(byId("trouble-words"), trouble.message);
  show(byId("trouble-remedy"), trouble.remedy ?? "");
  say(byId("trouble-again"), seconds === 1 ? "Trying again in a second." : `Trying again in ${seconds} seconds.`);
}

export function found() {
  byId("trouble").hidden = true;
}

/** A remark. The same words stand there once. */
export function notice(words, remedy) {
  const all = byId("notices");
  const text = [words, remedy].filter(Boolean).join(" ");
  const same = [...all.children].find((one) => one.firstElementChild.textContent === text);
  same?.remove();
  const paragraph = element("p");
  show(paragraph, text);
  const away = element("button", { type: "button", "aria-label": "Put this message away" }, "×");
  const one = element("div", { class: "notice" }, paragraph, away);
  away.addEventListener("click", () => one.remove());
  all.append(one);
  while (all.children.length > MOST_NOTICES) all.firstElementChild.remove();
}
