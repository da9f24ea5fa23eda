// What the server answered, from the bytes of a body to a tool's result or to what went wrong. Asks nothing.

/** What went wrong, in words and with the remedy. `kind`: `token`, `gone`, `server` or `tool`. */
export class Trouble extends Error {
  constructor(kind, words, remedy, code) {
    super(words);
    this.kind = kind;
    this.remedy = remedy;
    this.code = code;
  }
}

/** The messages in a body: one as JSON, or some as events. */
export function messages(body, type) {
  if (!type.startsWith("text/event-stream")) return [JSON.parse(body)];
  const events = body.replaceAll("\r\n", "\n").split("\n\n");
  const lines = (event) => event.split("\n").filter((line) => line.startsWith("data:"));
  const data = (event) => lines(event).map((line) => line.slice(5).replace(/^ /, "")).join("\n");
  return events.map(data).filter((text) => text !== "").map((text) => JSON.parse(text));
}

/** The structured result of the call `id`. */
export function result(status, type, body, id) {
  if (status === 401) {
    const where = "It is in the file that codespace-mcp was given with --token-file, or in its CODESPACE_MCP_TOKEN.";
    throw new Trouble("token", "The server did not take the token.", where);
  }
  let answer;
  try {
    answer = messages(body, type).find((message) => message.id === id);
  } catch {
    // A refusal of the guard, or of what stands between, is no message but words.
  }
  if (answer?.error) throw new Trouble("server", `The server refused: ${answer.error.message}.`);
  if (answer === undefined) {
    const words = body.trim().slice(0, 300);
    const said = words === "" || type.startsWith("text/event-stream") ? "it sent no answer" : words;
    throw new Trouble("server", `The server answered with status ${status}: ${said}`);
  }
  const { structuredContent, isError, content } = answer.result;
  if (!isError) return structuredContent;
  const { code, message, hint } = structuredContent ?? { message: content?.[0]?.text };
  throw new Trouble("tool", `The Runner failed to ${message}${code ? ` (${code})` : ""}.`, hint, code);
}
