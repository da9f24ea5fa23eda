// Makes text of others safe to show: control characters, and those that turn the direction of writing or that nobody
// would see, are shown as escapes. The same characters, in the same form, as the command line's tables show them
// (crates/domain/src/escape.rs; a test of the server compares the two over all characters).
//
// Text is given back in pieces, so that an escape (`mark`) can be told from the same letters in the text itself.

export const SHOWN_AS_ESCAPES = [
  [0x00, 0x1f],
  [0x7f, 0x9f],
  [0x61c, 0x61c],
  [0x200b, 0x200f],
  [0x2028, 0x202e],
  [0x2060, 0x206f],
  [0xfeff, 0xfeff],
  [0xe0000, 0xe0fff],
];

const NAMED = new Map([["\t", "\\t"], ["\r", "\\r"], ["\n", "\\n"]]);
const code = (number) => `\\u{${number.toString(16)}}`;
const CLASS = SHOWN_AS_ESCAPES.map(([from, to]) => `${code(from)}-${code(to)}`).join("");

/** One of them, for whoever looks through a text. */
export const special = () => new RegExp(`[${CLASS}]`, "gu");

/** How one of them is shown. */
export const escaped = (character) => NAMED.get(character) ?? code(character.codePointAt(0));

/** The text in pieces, in order: `{ text, mark }`. */
export function pieces(text) {
  const found = [];
  let from = 0;
  for (const match of text.matchAll(special())) {
    if (match.index > from) found.push({ text: text.slice(from, match.index), mark: false });
    found.push({ text: escaped(match[0]), mark: true });
    from = match.index + match[0].length;
  }
  if (from < text.length) found.push({ text: text.slice(from), mark: false });
  return found;
}

/** The text in one piece, for where there are no pieces, as in a title. */
export const visible = (text) => text.replace(special(), escaped);

const PLAIN = /^[\p{Alphabetic}\p{N}_\-./=:,+@%^]+$/u;

/** One argument as a shell would take it; to be shown by `pieces`. */
const quoted = (text) => (PLAIN.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/** A command as a shell would take it; to be shown by `pieces`. Words are text, or bytes that are none. */
export const commandLine = (command) => command.map((word) => quoted(text(word))).join(" ");

/** Text that may have come as bytes. */
export function text(word) {
  if (typeof word === "string") return word;
  const bytes = Uint8Array.from(atob(word.base64), (byte) => byte.charCodeAt(0));
  return new TextDecoder().decode(bytes);
}
