"""A real `codespace-mcp` for clients that others wrote: a workspace with its registry, the ways to start the gateway, and a
test case that fails when anything of it is left. Knows no MCP."""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

import survivors

ROOT = Path(__file__).resolve().parents[2]
CLIENTS = Path(os.environ.get("CODESPACE_CLIENTS", ROOT / "target/clients"))
# Where codespace-mcp, codespace-runner and codespace-linux-sandbox are.
BINARIES = Path(os.environ.get("CODESPACE_CLIENTS_BIN", ROOT / "target/debug"))

WORKSPACE = "w"
TOKEN = "a-token-of-a-test-0123456789"
# Nothing in a test takes longer, unless it hangs.
SOON = 30.0

# Where commands run: the flags of `codespace-mcp`.
IN_PROCESS, WORKER, INDEPENDENT = "in-process", "worker", "independent"


def node() -> str:
    """The Node that the clients were installed with."""
    return str(next(CLIENTS.glob("node_modules/node-linux-*/bin/node")))


class GatewayCase(unittest.IsolatedAsyncioTestCase):
    """A place of its own for each test. What a test starts is ended after it, by pid; then nothing may be left."""

    # How long an end that is under way may take, in seconds.
    leaving = 5.0

    def setUp(self) -> None:
        survivors.collect_orphans()
        self._known = set(survivors.below())
        self.folder = Path(tempfile.mkdtemp(prefix="codespace-clients."))
        self.addCleanup(shutil.rmtree, self.folder)
        self.addCleanup(self._nothing_is_left)
        self.workspace = self.folder / "workspace"
        self.home = self.folder / "home"
        for path in (self.workspace, self.home):
            path.mkdir(mode=0o700)
        self.registry = self.folder / "registry.json"
        self.registry.write_text(json.dumps({"workspaces": {WORKSPACE: {"root": str(self.workspace)}}}))
        self.token = self.folder / "token"
        self.token.touch(mode=0o600)
        self.token.write_text(TOKEN)
        self._socket: Path | None = None

    async def asyncSetUp(self) -> None:
        # unittest lets the loop tell of every slow step, which here is of no interest.
        asyncio.get_running_loop().set_debug(False)

    def stdio_command(self, runner: str) -> list[str]:
        """The command line that a client is given to start."""
        return [str(BINARIES / "codespace-mcp"), *self._flags(runner)]

    def serve_http(self, runner: str, *more: str) -> str:
        """Starts one on a free port of loopback. Returns its URL, once it listens."""
        flags = [*self._flags(runner), "--http", "127.0.0.1:0", *(more or ("--token-file", str(self.token)))]
        log = self._start("codespace-mcp", flags)
        found = self.until(lambda: re.search(r"address=(127\.0\.0\.1:\d+)", log.read_text()), "that it listens")
        return f"http://{found[1]}/mcp"

    def until(self, condition, what: str):
        """Waits until the condition has a value that is true, and returns that."""
        deadline = time.monotonic() + SOON
        while not (value := condition()):
            self.assertLess(time.monotonic(), deadline, f"waited in vain for {what}")
            time.sleep(0.01)
        return value

    def _flags(self, runner: str) -> list[str]:
        match runner:
            case "in-process":
                return ["--config", str(self.registry)]
            case "worker":
                return ["--runner", "uds", "--config", str(self.registry)]
            case "independent":
                return ["--runner-socket", str(self._independent())]
        raise ValueError(runner)

    def _independent(self) -> Path:
        """The socket of an independent Runner, one for all gateways of the test."""
        if self._socket is None:
            socket = self.folder / "run/runner.sock"
            self._start("codespace-runner", ["serve", "--config", str(self.registry), "--socket", str(socket)])
            self.until(socket.exists, "the Runner's socket")
            self._socket = socket
        return self._socket

    def _start(self, program: str, flags: list[str]) -> Path:
        """Starts a program that ends with this test, and well. Returns its log."""
        log = self.folder / f"{program}.{len(list(self.folder.glob('*.log')))}.log"
        with log.open("w") as stderr:
            running = subprocess.Popen(
                [BINARIES / program, *flags],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                cwd=self.workspace,
                env={**os.environ, "HOME": str(self.home)},
            )
        # Last started, first ended: the gateway before its Runner.
        self.addCleanup(self._stop, program, running, log)
        return log

    def _stop(self, program: str, running: subprocess.Popen, log: Path) -> None:
        running.send_signal(signal.SIGTERM)
        try:
            code = running.wait(SOON)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()
            code = "no end in time"
        self.assertEqual(code, 0, f"{program}: {log.read_text()}")

    def _nothing_is_left(self) -> None:
        left = survivors.left(self._known, self.leaving)
        survivors.end(self._known)
        self.assertFalse(left, "left behind")
