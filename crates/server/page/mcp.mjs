// Asks the server, as any other MCP client does: one request for one call of a tool, without a session. Nothing else
// of this page talks to anybody.

import { Trouble, result } from "./answer.mjs";

const VERSION = "2026-07-28";
const META = {
  "io.modelcontextprotocol/protocolVersion": VERSION,
  "io.modelcontextprotocol/clientInfo": { name: "codespace-page", version: "1" },
  "io.modelcontextprotocol/clientCapabilities": {},
};
/** How much longer than a call waits by itself its answer may take. */
const PATIENCE_MS = 30_000;

export class Client {
  /** Kept here alone. */
  token = "";
  #next = 1;

  /** The result of a tool. Throws a `Trouble`, or an `AbortError` when `signal` ends the waiting. */
  async call(name, args, signal) {
    const id = this.#next;
    this.#next += 1;
    const deadline = AbortSignal.timeout((args.wait_ms ?? 0) + PATIENCE_MS);
    const headers = {
      Accept: "application/json, text/event-stream",
      "Content-Type": "application/json",
      "MCP-Protocol-Version": VERSION,
      "Mcp-Method": "tools/call",
      "Mcp-Name": name,
    };
    if (this.token !== "") headers.Authorization = `Bearer ${this.token}`;
    const body = { jsonrpc: "2.0", id, method: "tools/call", params: { name, arguments: args, _meta: META } };
    let answer;
    let text;
    try {
      answer = await fetch("mcp", {
        method: "POST",
        headers,
        body: JSON.stringify(body),
        signal: signal ? AbortSignal.any([signal, deadline]) : deadline,
        cache: "no-store",
        credentials: "omit",
        redirect: "error",
        referrerPolicy: "no-referrer",
      });
      text = await answer.text();
    } catch (error) {
      if (signal?.aborted) throw error;
      const remedy = "Is codespace-mcp still running? It has to be started again by whoever started it.";
      throw new Trouble("gone", "The server does not answer.", remedy);
    }
    return result(answer.status, answer.headers.get("Content-Type") ?? "", text, id);
  }
}
