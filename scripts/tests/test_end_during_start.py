"""What the quickstart says about leftovers can be believed: it passes with a Runner that ends what it starts, and fails
with one that only says so."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(SCRIPTS / "lib"))
import end_during_start  # noqa: E402
from runner_client import RunnerClient, RunnerError, connect_when_ready  # noqa: E402

FAKE = SCRIPTS / "tests/fake_runner.py"
# Seconds that nothing else of this machine sleeps.
MARK = str(2_000_000_000 + os.getpid())


@unittest.skipUnless(sys.platform == "linux", "reads /proc")
class EndDuringStart(unittest.TestCase):
    def run_tool(self, mode: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, SCRIPTS / "lib/end_during_start.py", "--runner", FAKE, "--workspace", "/", "--tries", "4"]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, env=os.environ | {"FAKE_RUNNER": mode})

    def test_a_runner_that_ends_what_it_starts_passes(self) -> None:
        run = self.run_tool("honest")
        self.assertEqual(run.returncode, 0, run)
        self.assertIn("left with the Runner still there: nothing", run.stdout)
        self.assertIn("left after the Runner's own end: nothing", run.stdout)
        self.assertIn("ended 4 times during its start, 0 times just after", run.stdout)

    def test_a_runner_that_only_says_so_fails_and_what_is_left_is_named(self) -> None:
        run = self.run_tool("leak")
        after = run.stdout.rpartition("left after the Runner's own end: ")[2]
        left = [int(pid) for pid in re.findall(r"(\d+): sleep \d+", after)]
        for pid in left:
            # Each was found by its unique number a moment ago and sleeps for decades.
            os.kill(pid, signal.SIGKILL)
        self.assertEqual((run.returncode, len(left)), (1, 4), run)

    def test_ends_that_never_land_in_a_start_show_nothing_and_fail(self) -> None:
        run = self.run_tool("late")
        self.assertEqual(run.returncode, 1, run)
        self.assertIn("only 0 of 4 ends landed during a start", run.stderr)

    def test_the_search_finds_descendants_and_leaves_zombies_out(self) -> None:
        # The shell starts a sleep in a session of its own, and a child that it never reaps.
        shell = subprocess.Popen(["sh", "-c", f"setsid sleep {MARK} & true & exec sleep {MARK}"])
        try:
            found: set[int] = set()
            for _ in range(200):
                found = end_during_start.descendants(shell.pid)
                if len(found) == 1 and len(end_during_start.carrying(MARK)) == 2:
                    break
                end_during_start.time.sleep(0.01)
            self.assertEqual(len(found), 1, end_during_start.listed(found))
            self.assertEqual(end_during_start.carrying(MARK), found | {shell.pid})
        finally:
            for pid in end_during_start.descendants(shell.pid):
                os.kill(pid, signal.SIGKILL)
            shell.kill()
            shell.wait()


class Client(unittest.TestCase):
    def test_answers_come_in_any_order_and_a_refusal_keeps_its_code(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "socket"
            server = subprocess.Popen([sys.executable, FAKE, "serve", "--socket", path])
            try:
                with connect_when_ready(path, "test", lambda: server.poll() is None) as client:
                    started = client.send("exec", workspace_id="default", process_key="a", command=["sleep", "60"])
                    ended = client.send("terminate_process", workspace_id="default", process_key="a")
                    self.assertEqual(client.wait(ended)["state"], "exited")
                    self.assertEqual(client.wait(started)["process_id"], "proc-a")
                    with self.assertRaises(RunnerError) as refusal:
                        client.call("no_such_method")
                    self.assertEqual(refusal.exception.code, "INTERNAL")
                    client.call("stop")
                    server.wait(timeout=10)
                    with self.assertRaises(ConnectionError):
                        client.call("hello", protocol=1, client={"name": "test"})
            finally:
                server.kill()
                server.wait()

    def test_a_runner_that_is_not_there_is_not_waited_for(self) -> None:
        with self.assertRaises(FileNotFoundError):
            connect_when_ready(Path("/nonexistent/socket"), "test", lambda: False)
        with self.assertRaises(FileNotFoundError):
            RunnerClient(Path("/nonexistent/socket"), "test")


if __name__ == "__main__":
    unittest.main()
