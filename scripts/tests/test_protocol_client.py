"""The client that docs/protocol.md shows works with a real Runner, as it stands there."""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import types
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RUNNER = Path(os.environ.get("CODESPACE_RUNNER_BIN", ROOT / "target/debug/codespace-runner"))
# Nothing here takes longer, unless it hangs.
LONG = 60


def block(page: str) -> str:
    """The one Python block of a page."""
    (code,) = re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(encoding="utf-8"), re.M | re.S)
    return code


class Pages(unittest.TestCase):
    def test_both_languages_show_the_same_client_of_at_most_60_lines(self) -> None:
        code = block("docs/protocol.md")
        self.assertEqual(block("docs/ko/protocol.md"), code)
        self.assertLessEqual(len(code.splitlines()), 60)


@unittest.skipUnless(sys.platform == "linux", "needs a Runner, which is there on Linux only")
class Client(unittest.TestCase):
    def setUp(self) -> None:
        if not RUNNER.exists():
            why = f"there is no {RUNNER}: cargo build --locked --workspace --bins"
            if os.environ.get("CODESPACE_REQUIRE_LINUX_SANDBOX") == "1":
                self.fail(why)
            self.skipTest(why)
        # Also for a client that asks the same for ever.
        signal.signal(signal.SIGALRM, self.too_long)
        signal.alarm(2 * LONG)
        self.addCleanup(signal.alarm, 0)
        folder = tempfile.TemporaryDirectory(prefix="codespace-client.")
        self.addCleanup(folder.cleanup)
        self.socket = f"{folder.name}/private/runner.sock"
        workspace = Path(folder.name, "workspace")
        workspace.mkdir()
        # What it says is seen when something fails: the test's stderr is its.
        command, environment = [RUNNER, "serve", "--socket", self.socket], os.environ | {"RUST_LOG": "warn"}
        self.runner = subprocess.Popen(command, cwd=workspace, stdin=subprocess.DEVNULL, env=environment)
        self.addCleanup(self.end)
        self.module = types.ModuleType("documented_client")
        exec(compile(block("docs/protocol.md"), "docs/protocol.md", "exec"), self.module.__dict__)
        end = time.monotonic() + LONG
        while True:
            try:
                with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as attempt:
                    attempt.connect(self.socket)
                break
            except (FileNotFoundError, ConnectionRefusedError):
                self.assertIsNone(self.runner.poll(), "the Runner has ended")
                self.assertLess(time.monotonic(), end, "the Runner does not listen")
                time.sleep(0.01)

    @staticmethod
    def too_long(*_: object) -> None:
        raise TimeoutError("a test of the client takes too long")

    def end(self) -> None:
        self.runner.terminate()
        try:
            self.runner.wait(timeout=LONG)
        finally:
            self.runner.kill()
            self.runner.wait()

    def connect(self):
        client = self.module.Runner(self.socket)
        client.socket.settimeout(LONG)
        self.addCleanup(self.close, client)
        return client

    @staticmethod
    def close(client) -> None:
        client.stream.close()
        client.socket.close()

    def start(self, client, *command: str, **params: object) -> str:
        return client.call("exec", workspace_id="default", command=command, **params)["process_id"]

    def until(self, client, process: str, wanted: bytes, cursor: int = 0) -> int:
        """Reads until the output has it. Returns the cursor behind what was read."""
        seen = b""
        for piece, cursor in client.output(process, cursor):
            seen += piece
            if wanted in seen:
                return cursor
        status = client.call("process_status", process_id=process, wait_ms=LONG * 1000)
        self.fail(f"the output ended without {wanted!r}: {seen!r}, and the process: {status}")

    def test_a_command_is_run_and_waited_for(self) -> None:
        client = self.connect()
        self.assertEqual(client.about["sandbox"]["engine"], "bubblewrap", client.about)
        answer = client.call("exec", workspace_id="default", command=["sh", "-c", "echo quick; exit 2"], wait_ms=LONG * 1000)
        self.assertEqual((answer["status"]["exit_code"], answer["output"]["chunk"]), (2, "quick\n"))
        self.assertTrue(answer["status"]["tree"]["confirmed"], answer)
        with self.assertRaises(self.module.Refused) as refused:
            self.start(client, "no-such-program")
        self.assertEqual((refused.exception.data["code"], refused.exception.data["stage"]), ("PROCESS_SPAWN_FAILED", "exec"))

    def test_any_bytes_go_through_stdin_and_come_back(self) -> None:
        client = self.connect()
        data = bytes(range(256)) * 2000
        process = self.start(client, "cat", stdin="pipe")
        encoded = self.module.base64.b64encode(data).decode()
        write = client.send("write_stdin", process_id=process, data=encoded, encoding="base64")
        client.send("close_stdin", process_id=process)
        self.assertEqual(b"".join(piece for piece, _ in client.output(process)), data)
        self.assertEqual(client.wait(write), {"written": len(data)})

    def test_a_terminal_is_resized_and_takes_ctrl_c(self) -> None:
        client = self.connect()
        script = "stty size; read line; stty size; trap 'echo interrupted; exit 7' INT; echo ready; while :; do sleep 0.05; done"
        process = self.start(client, "sh", "-c", script, tty=True, rows=30, cols=90)
        cursor = self.until(client, process, b"30 90")
        self.assertEqual(client.call("process_resize", process_id=process, rows=40, cols=120), {"rows": 40, "cols": 120})
        client.call("write_stdin", process_id=process, data="\n")
        cursor = self.until(client, process, b"ready", cursor)
        client.call("write_stdin", process_id=process, data="\x03")
        self.until(client, process, b"interrupted", cursor)
        status = client.call("process_status", process_id=process, wait_ms=LONG * 1000)
        self.assertEqual((status["exit_code"], status["ended_by"]), (7, "command"))

    def test_another_connection_goes_on_where_one_has_left(self) -> None:
        first = self.connect()
        process = self.start(first, "sh", "-c", "echo one; read line; echo two; echo three", stdin="pipe")
        cursor = self.until(first, process, b"one\n")
        self.close(first)
        second = self.connect()
        second.call("write_stdin", process_id=process, data="\n")
        self.assertEqual(b"".join(piece for piece, _ in second.output(process, cursor)), b"two\nthree\n")

    def test_a_stop_ends_what_runs_and_closes_the_connection(self) -> None:
        client = self.connect()
        self.start(client, "sleep", "1000")
        self.assertEqual(client.call("stop"), {"ended": 1})
        with self.assertRaises(ConnectionError):
            client.call("list_processes")
        self.assertEqual(self.runner.wait(timeout=LONG), 0)
        self.assertFalse(os.path.exists(self.socket))

    def test_as_a_program_it_copies_the_output_and_the_exit_code(self) -> None:
        command = [sys.executable, "-c", block("docs/protocol.md"), self.socket, "sh", "-c", "echo out; exit 4"]
        run = subprocess.run(command, capture_output=True, timeout=LONG)
        self.assertEqual((run.returncode, run.stdout, run.stderr), (4, b"out\n", b""))


if __name__ == "__main__":
    unittest.main()
