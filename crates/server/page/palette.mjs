// The sixteen colours that there are classes for, and which of them is nearest to another colour.

// What a terminal has for them, to measure by; how they look here is in terminal.css.
const MEASURED = [
  [0, 0, 0], [205, 0, 0], [0, 205, 0], [205, 205, 0], [0, 0, 238], [205, 0, 205], [0, 205, 205], [229, 229, 229],
  [127, 127, 127], [255, 0, 0], [0, 255, 0], [255, 255, 0], [92, 92, 255], [255, 0, 255], [0, 255, 255], [255, 255, 255],
];
const LEVELS = [0, 95, 135, 175, 215, 255];

/** Of a colour by its red, green and blue; what is out of range is cut to it. */
export function nearest(red, green, blue) {
  const wanted = [red, green, blue].map((part) => Math.min(Math.max(part || 0, 0), 255));
  const distance = (of) => of.reduce((sum, part, at) => sum + (part - wanted[at]) ** 2, 0);
  return MEASURED.reduce((best, of, at) => (distance(of) < distance(MEASURED[best]) ? at : best), 0);
}

/** Of one of a terminal's 256 colours. `undefined`: there is no such colour. */
export function indexed(number) {
  if (!(number >= 0 && number <= 255)) return undefined;
  if (number < 16) return number;
  if (number < 232) {
    const at = number - 16;
    return nearest(LEVELS[Math.floor(at / 36)], LEVELS[Math.floor(at / 6) % 6], LEVELS[at % 6]);
  }
  const grey = 8 + (number - 232) * 10;
  return nearest(grey, grey, grey);
}
