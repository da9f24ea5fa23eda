// The token: from the address's fragment, which no server ever sees, or typed.
//
// It is kept in memory only. What a tab stores is there for every program that later listens on the same port, as soon as
// somebody reloads the tab; reloading asks for it again instead.

/** Takes the token out of the address bar and this entry of the history. `undefined`: there was none. */
export function fromAddress() {
  const prefix = "#token=";
  const given = location.hash;
  if (!given.startsWith(prefix)) return undefined;
  history.replaceState(null, "", location.pathname + location.search);
  return decoded(given.slice(prefix.length)).trim();
}

/** Some characters are written as %XX in an address; a token that only looks like that stays as it is. */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Why this cannot be a token; `undefined` where it can. A header takes no others. */
export function wrong(token) {
  if (token === "") return "No token was given.";
  return /^[!-~]+$/.test(token) ? undefined : "A token has only visible ASCII characters.";
}
