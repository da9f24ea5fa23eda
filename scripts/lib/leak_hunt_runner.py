"""This Runner: ended starts over its socket, and SIGKILL to the Runner and to the helper of a start."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from end_during_start import WORKSPACE
from leak_hunt_try import REACH, Command, Try, median
from runner_client import RunnerClient, RunnerError, connect_when_ready


class Runner:
    NAME = "ours"
    CAUSES = {
        "terminate": "terminate",
        "kill-runner": "SIGKILL to the Runner",
        "kill-helper": "SIGKILL to the helper",
    }

    def __init__(self, program: Path, command: Command, private: Path) -> None:
        self._program = program
        self._command = command
        self._socket = private / "runner.sock"
        self._log = private / "runner.log"
        self._daemon: subprocess.Popen | None = None
        self.starts_s: dict[str, list[float]] = {}

    def own_pid(self) -> int | None:
        """The Runner's own, while it is there."""
        return self._daemon.pid if self._daemon else None

    @contextmanager
    def batch(self, cause: str, problems: list[str]) -> Iterator[Callable[[str, float], Try]]:
        """Gives what makes one try, by its name and a number from 0 to 1 that says when it is ended. What an answer says
        that it should not say goes to `problems`."""
        if cause == "kill-runner":
            start_s = self._measured_fresh()
            yield lambda name, moment: self._kill_runner(name, moment * REACH * start_s, problems)
            return
        end = self._terminate if cause == "terminate" else self._kill_helper
        with self._serving() as client:
            start_s = self._measured(client)
            yield lambda name, moment: end(client, name, moment * REACH * start_s, problems)
            if (status := self._stopped(client)) != 0:
                problems.append(f"the Runner's stop ended with {status}, not 0")

    def _terminate(self, client: RunnerClient, name: str, age_s: float, problems: list[str]) -> Try:
        one, started = self._exec(client, name)
        one.wait_until(age_s)
        one.ending()
        status = client.call("terminate_process", workspace_id=WORKSPACE, process_key=name)
        one.over()
        client.wait(started)
        expect(status, "terminate", name, problems)
        return one

    def _kill_helper(self, client: RunnerClient, name: str, age_s: float, problems: list[str]) -> Try:
        one, started = self._exec(client, name)
        one.wait_until(age_s)
        handle = self._helper(client, one)
        try:
            one.ending()
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(handle)
        try:
            process = client.wait(started)["process_id"]
            status = client.call("process_status", process_id=process, wait_ms=10_000)
        except RunnerError as error:
            # A start that lost its helper has failed, and leaves nothing to ask for.
            one.over()
            if (error.code, error.data.get("stage")) != ("PROCESS_SPAWN_FAILED", "sandbox"):
                problems.append(f"{name}: {error} (stage {error.data.get('stage')})")
            return one
        one.over()
        expect(status, "helper_lost", name, problems)
        return one

    def _kill_runner(self, name: str, age_s: float, problems: list[str]) -> Try:
        with self._serving() as client:
            one, _ = self._exec(client, name)
            one.wait_until(age_s)
            if self._daemon.poll() is not None:
                problems.append(f"{name}: the Runner has ended by itself, with {self._daemon.returncode}")
            one.ending()
            self._daemon.kill()
            self._daemon.wait()
            one.over(answered=False)
            return one

    def _helper(self, client: RunnerClient, one: Try, deadline_s: float = 10.0) -> int:
        """A handle of the start's helper, as soon as the Runner tells its pid. The Runner's other children may be what an
        earlier try's helper has left to it and what it is about to reap."""
        while time.monotonic() < one.began + deadline_s:
            listed = client.call("list_processes", workspace_id=WORKSPACE, state="running")["processes"]
            pid = next((status.get("pid") for status in listed if status.get("process_key") == one.marker.name), None)
            if pid is None:
                continue
            try:
                handle = os.pidfd_open(pid)
            except ProcessLookupError:
                continue  # Gone meanwhile.
            # What a handle names cannot change after this look.
            if pid in children(self._daemon.pid):
                return handle
            os.close(handle)
        raise TimeoutError(f"{one.marker.name}: the Runner has started nothing within {deadline_s:g} s")

    def _measured(self, client: RunnerClient) -> float:
        taken = [self._measured_start(client, f"measure-{number}") for number in range(6)]
        # The first start of a Runner is slower, and none that a try of this Runner meets.
        self.starts_s.setdefault(self.NAME, []).extend(taken[1:])
        return median(taken[1:])

    def _measured_fresh(self) -> float:
        taken = []
        for _ in range(3):
            with self._serving() as client:
                taken.append(self._measured_start(client, "measure-0"))
                self._stopped(client)
        self.starts_s.setdefault(f"{self.NAME}, first start of a Runner", []).extend(taken)
        return median(taken)

    def _measured_start(self, client: RunnerClient, name: str) -> float:
        one, started = self._exec(client, name)
        try:
            taken = one.wait_for_start()
        finally:
            # A refusal says why it did not start.
            client.wait(started)
        client.call("terminate_process", workspace_id=WORKSPACE, process_key=name)
        one.marker.unlink()
        return taken

    def _exec(self, client: RunnerClient, name: str) -> tuple[Try, int]:
        one = Try(self._command.marker(name))
        return one, client.send("exec", workspace_id=WORKSPACE, process_key=name, command=self._command.argv(name))

    def _stopped(self, client: RunnerClient) -> int:
        """Stops the Runner; its exit code."""
        client.call("stop")
        return self._daemon.wait(timeout=10)

    @contextmanager
    def _serving(self) -> Iterator[RunnerClient]:
        """A Runner of its own process, with a client. It is gone afterwards, however that came."""
        environment = {name: value for name, value in os.environ.items() if name != "CODESPACE_CONFIG"}
        with open(self._log, "ab") as log:
            self._daemon = subprocess.Popen([self._program, "serve", "--socket", self._socket], cwd=self._command.workspace,
                                            env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log)
        try:
            with connect_when_ready(self._socket, "leak-hunt", lambda: self._daemon.poll() is None) as client:
                yield client
        except (OSError, RunnerError) as error:
            tail = self._log.read_text(errors="replace")[-2000:]
            raise RuntimeError(f"{error}; the Runner's last words: {tail or 'none'}") from error
        finally:
            # Whoever cares how it ends has waited for it.
            self._daemon.kill()
            self._daemon.wait()
            self._daemon = None
            self._socket.unlink(missing_ok=True)


def children(pid: int) -> list[int]:
    """Of all its threads; none when it is gone."""
    found = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    except FileNotFoundError:
        pass  # A thread that ended meanwhile, or the process.
    return found


def expect(status: dict, cause: str, name: str, problems: list[str]) -> None:
    """The answer to an end says that it is one, by this cause, and that nothing of the tree is left."""
    tree = status.get("tree", {})
    if status["state"] != "exited" or status.get("ended_by") != cause or not tree.get("confirmed"):
        problems.append(f"{name}: {status['state']}, ended by {status.get('ended_by')}, tree {tree}")
