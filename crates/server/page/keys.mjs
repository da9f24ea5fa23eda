// The keys of the page. They do nothing while somebody types, or while a question is open.

/** `actions`: what each key does, by `KeyboardEvent.key`. */
export function listen(actions) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.repeat) return;
    // A question that was just closed may have the focus for a moment more.
    if (event.target.closest?.("input") || document.querySelector("dialog[open]")) return;
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
}
