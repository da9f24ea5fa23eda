// How a terminal's text looks, as classes: what the escape sequence `CSI ... m` sets. Knows no text.
//
// Text can be coloured, never hidden: "conceal" is not obeyed, and a colour on the same colour is shown without both.

import { indexed, nearest } from "./palette.mjs";

const ATTRIBUTES = new Map([
  [1, "bold"], [2, "dim"], [3, "italic"], [4, "underline"], [7, "inverse"], [9, "strike"], [21, "underline"],
]);
const OFF = new Map([
  [22, ["bold", "dim"]], [23, ["italic"]], [24, ["underline"]], [27, ["inverse"]], [29, ["strike"]],
]);

export class Style {
  #on = new Set();
  #foreground;
  #background;

  /** The classes, separated by spaces; empty for plain text. */
  get classes() {
    const classes = [...this.#on].filter((name) => name !== "inverse").map((name) => `t-${name}`);
    let [foreground, background] = [this.#foreground, this.#background];
    if (foreground === background) foreground = background = undefined;
    if (this.#on.has("inverse")) {
      if (foreground === undefined && background === undefined) return [...classes, "t-inverse"].join(" ");
      // Grey behind what has only its background set: as a letter's colour "no colour" would be the page's own.
      [foreground, background] = [background, foreground ?? 7];
      if (foreground === background) foreground = undefined;
    }
    if (foreground !== undefined) classes.push(`f${foreground}`);
    if (background !== undefined) classes.push(`b${background}`);
    return classes.join(" ");
  }

  /** Takes the parameters of a sequence, like `1;31` or `38:5:200`. */
  set(parameters) {
    const all = parameters.split(";").map((one) => one.split(":").map((number) => (number === "" ? undefined : Number(number))));
    for (let at = 0; at < all.length; at += 1) {
      const [code = 0, ...parts] = all[at];
      if (code === 38 || code === 48 || code === 58) {
        const { colour, used } = parts.length > 0 ? { colour: ofParts(parts), used: 0 } : ofFollowing(all.slice(at + 1));
        at += used;
        if (code === 38 && colour !== undefined) this.#foreground = colour;
        if (code === 48 && colour !== undefined) this.#background = colour;
      } else if (code === 4 && parts[0] === 0) {
        this.#on.delete("underline");
      } else {
        this.#simple(code);
      }
    }
  }

  #simple(code) {
    if (code === 0) {
      this.#on.clear();
      this.#foreground = this.#background = undefined;
    } else if (ATTRIBUTES.has(code)) this.#on.add(ATTRIBUTES.get(code));
    else if (OFF.has(code)) OFF.get(code).forEach((name) => this.#on.delete(name));
    else if (code >= 30 && code <= 37) this.#foreground = code - 30;
    else if (code === 39) this.#foreground = undefined;
    else if (code >= 40 && code <= 47) this.#background = code - 40;
    else if (code === 49) this.#background = undefined;
    else if (code >= 90 && code <= 97) this.#foreground = code - 90 + 8;
    else if (code >= 100 && code <= 107) this.#background = code - 100 + 8;
  }
}

/** `38:5:N`, `38:2:R:G:B` and `38:2:SPACE:R:G:B`. */
function ofParts([kind, ...parts]) {
  if (kind === 5) return indexed(parts[0] ?? 0);
  if (kind === 2) return nearest(...parts.slice(parts.length > 3 ? 1 : 0));
  return undefined;
}

/** `38;5;N` and `38;2;R;G;B`. */
function ofFollowing(following) {
  const [kind, ...numbers] = following.map(([number]) => number ?? 0);
  if (kind === 5) return { colour: indexed(numbers[0] ?? 0), used: 2 };
  if (kind === 2) return { colour: nearest(...numbers.slice(0, 3)), used: 4 };
  return { colour: undefined, used: 1 };
}
