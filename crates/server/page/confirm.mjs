// Asks whoever watches before more than one process is ended.

import { byId, show } from "./dom.mjs";

/** True: yes. The safe answer has the focus. */
export function confirmed(question, consequence, answer) {
  const dialog = byId("confirm");
  if (dialog.open) return Promise.resolve(false);
  show(byId("confirm-question"), question);
  show(byId("confirm-consequence"), consequence);
  show(byId("confirm-yes"), answer);
  dialog.returnValue = "";
  dialog.showModal();
  byId("confirm-no").focus();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

/** The buttons are no form's: nothing of this page is ever submitted. */
export function prepare() {
  const dialog = byId("confirm");
  byId("confirm-yes").addEventListener("click", () => dialog.close("yes"));
  byId("confirm-no").addEventListener("click", () => dialog.close("no"));
  byId("help-close").addEventListener("click", () => byId("help").close());
}
