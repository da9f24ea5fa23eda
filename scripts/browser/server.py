"""A real `codespace-mcp` with its live page, and two workspaces, of a test. Speaks to it as an agent's client does."""

import json
import os
import re
import signal
import subprocess
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("CODESPACE_MCP_BIN", str(ROOT / "target/debug/codespace-mcp"))
TOKEN = "a-token/of+a-test-0123456789="
VERSION = "2026-07-28"
META = {"io.modelcontextprotocol/protocolVersion": VERSION, "io.modelcontextprotocol/clientCapabilities": {}}


class Server:
    def __init__(self, *flags: str, port: int = 0, token: bool = True) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="codespace-page.", dir="/var/tmp")
        place = Path(self.folder.name)
        workspaces = {}
        for name in ("demo", "site"):
            (place / name).mkdir()
            workspaces[name] = {"root": str(place / name)}
        (place / "registry.json").write_text(json.dumps({"workspaces": workspaces}))
        (place / "token").write_text(TOKEN)
        (place / "token").chmod(0o600)
        self.token = TOKEN if token else None
        access = ["--token-file", place / "token"] if token else ["--no-token"]
        command = [PROGRAM, "--http", f"127.0.0.1:{port}", "--page", "--config", place / "registry.json", *access, *flags]
        environment = {name: value for name, value in os.environ.items() if name != "RUST_LOG"}
        self.process = subprocess.Popen(command, cwd=place / "demo", env=environment, stderr=subprocess.PIPE, text=True)
        # The log says where the page is.
        for line in self.process.stderr:
            if found := re.search(r"page=(http://127\.0\.0\.1:(\d+)/)", line):
                self.address, self.port = found[1], int(found[2])
                return
        self.close()
        raise AssertionError("the log does not say where the page is")

    def close(self) -> None:
        self.end(signal.SIGTERM)
        self.folder.cleanup()

    def end(self, by: signal.Signals) -> None:
        """It ends with everything that it started."""
        if self.process.poll() is None:
            self.process.send_signal(by)
            self.process.wait(30)
        self.process.stderr.close()

    def call(self, tool: str, **arguments: Any) -> dict:
        params = {"name": tool, "arguments": arguments, "_meta": META}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        headers |= {"MCP-Protocol-Version": VERSION, "Mcp-Method": "tools/call", "Mcp-Name": tool}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        with urllib.request.urlopen(urllib.request.Request(f"{self.address}mcp", body, headers), timeout=60) as answer:
            events = [line[5:].strip() for line in answer.read().decode().split("\n") if line.startswith("data:")]
        result = next(message["result"] for message in map(json.loads, filter(None, events)) if message.get("id") == 1)
        assert not result.get("isError"), result
        return result["structuredContent"]

    def start(self, *command: str, workspace: str = "demo", **more: Any) -> str:
        """The id of a new process."""
        return self.call("exec_command", workspace_id=workspace, command=list(command), wait_ms=0, **more)["process_id"]

    def shell(self, script: str, **more: Any) -> str:
        return self.start("bash", "-c", script, **more)

    def status(self, process_id: str) -> dict:
        return self.call("process_status", process_id=process_id)
