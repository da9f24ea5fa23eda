"""Plain bubblewrap, used as its manual says a command is tied to whoever started it: --die-with-parent --unshare-pid."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from leak_hunt_try import REACH, Command, Try, median

QUIET = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


class Bwrap:
    NAME = "plain bwrap"
    CAUSES = {
        "bwrap-term": "terminate (SIGTERM to bwrap)",
        "bwrap-parent": "SIGKILL to what started bwrap",
        "bwrap-kill": "SIGKILL to bwrap",
    }

    def __init__(self, program: str, command: Command) -> None:
        self._program = program
        self._command = command
        self.starts_s: dict[str, list[float]] = {}

    def own_pid(self) -> None:
        """Nothing of it is to be left."""

    @contextmanager
    def batch(self, cause: str, _problems: list[str]) -> Iterator[Callable[[str, float], Try]]:
        """Gives what makes one try, by its name and a number from 0 to 1 that says when it is ended."""
        below_a_shell = cause == "bwrap-parent"
        number = signal.SIGTERM if cause == "bwrap-term" else signal.SIGKILL
        start_s = self._measured(below_a_shell)

        def attempt(name: str, moment: float) -> Try:
            one, process = self._start(name, below_a_shell)
            one.wait_until(moment * REACH * start_s)
            one.ending()
            process.send_signal(number)
            process.wait()
            one.over(answered=False)
            return one

        yield attempt

    def _measured(self, below_a_shell: bool) -> float:
        taken = []
        for number in range(5):
            one, process = self._start(f"measure-{number}", below_a_shell)
            try:
                taken.append(one.wait_for_start())
            finally:
                process.kill()
                process.wait()
                one.marker.unlink(missing_ok=True)
        self.starts_s.setdefault(self.NAME + ", below a shell" * below_a_shell, []).extend(taken)
        return median(taken)

    def _start(self, name: str, below_a_shell: bool) -> tuple[Try, subprocess.Popen]:
        workspace = self._command.workspace
        # The usual line, and a place for the file that tells that the command ran.
        line = [self._program, "--die-with-parent", "--unshare-pid", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc",
                "--bind", str(workspace), str(workspace), "--", *self._command.argv(name)]
        if below_a_shell:
            # The second command keeps the shell from becoming bwrap.
            line = ["sh", "-c", '"$@"; :', "sh", *line]
        one = Try(self._command.marker(name))
        return one, subprocess.Popen(line, cwd=workspace, env={"PATH": os.environ["PATH"]}, **QUIET)

