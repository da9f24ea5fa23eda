"""What is left of anything that this process has started, however it detached itself; and its end, through handles.

Signals nothing but what is below this process or carries the run's own number.
"""

import ctypes
import os
import signal
import time

from end_during_start import carrying, descendants, listed

PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> None:
    """Whatever loses its parent below this process comes to this process."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "failed to become a subreaper")


class Survivors:
    """`mark`: a number that no other process of this machine has among its arguments."""

    def __init__(self, mark: str) -> None:
        self.mark = mark
        # What a shell that became this process had started before.
        self._known = descendants(os.getpid())

    def left(self, runner: int | None) -> list[str]:
        """Each as a text; the Runner itself is none, everything below it is one."""
        return [listed({pid}) for pid in sorted(self._pids(runner))]

    def end(self, runner: int | None = None, deadline_s: float = 10.0) -> None:
        """Ends all that is left and reaps what comes here; TimeoutError when something does not go."""
        end = time.monotonic() + deadline_s
        while left := self._pids(runner):
            handles = {}
            for pid in left:
                try:
                    handles[pid] = os.pidfd_open(pid)
                except ProcessLookupError:
                    continue  # Gone meanwhile.
            # The handles first, then the look: what a handle names cannot change after the look.
            still_left = self._pids(runner)
            for pid, handle in handles.items():
                try:
                    if pid in still_left:
                        signal.pidfd_send_signal(handle, signal.SIGKILL)
                except ProcessLookupError:
                    pass  # Gone meanwhile.
                finally:
                    os.close(handle)
            if time.monotonic() > end:
                raise TimeoutError(f"does not end: {listed(still_left)}")
            time.sleep(0.01)
            reap(runner)
        reap(runner)

    def _pids(self, runner: int | None) -> set[int]:
        return (carrying(self.mark) | descendants(os.getpid())) - self._known - {runner, os.getpid()}


def reap(runner: int | None) -> None:
    """Reaps the dead that came here, each by its own number; the Runner is left to who has started it."""
    while True:
        try:
            dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if dead is None or dead.si_pid == runner:
            return
        os.waitpid(dead.si_pid, os.WNOHANG)
