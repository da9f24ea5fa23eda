"""What the soak says can be believed: it fails when a count has changed, when the memory has grown, and when an answer is
not what the process must have ended by."""

import os
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from soak import compared  # noqa: E402
from soak_kinds import Turn, Wrong, failing, plain, stdin, timeout  # noqa: E402
from soak_level import Level, level  # noqa: E402


class Chance:
    """Always the first."""

    def randrange(self, start: int, stop: int | None = None) -> int:
        return 0 if stop is None else start

    def randbytes(self, size: int) -> bytes:
        return b"x" * size

    def choice(self, some: list) -> object:
        return some[0]


class Client:
    """Answers what it was told to."""

    def __init__(self, **answers: dict) -> None:
        self._answers = {"exec": {"process_id": "proc-1"}} | answers

    def call(self, method: str, **_: object) -> dict:
        return self._answers[method]


def status(**more: object) -> dict:
    return {"process_id": "proc-1", "state": "exited", "ended_by": "command", "exit_code": 0, "tree": {"confirmed": True}} | more


class Kinds(unittest.TestCase):
    def turn(self, **answers: dict) -> Turn:
        return Turn(Client(**answers), "key", Chance())

    def test_an_end_as_promised_passes(self) -> None:
        plain(self.turn(process_status=status()))
        timeout(self.turn(process_status=status(ended_by="timeout", termination="timeout")))

    def test_any_other_end_is_wrong(self) -> None:
        others = [{"state": "running"}, {"ended_by": "helper_lost"}, {"exit_code": 1}, {"tree": {"confirmed": False}}, {"tree": {}}]
        for other in others:
            with self.assertRaises(Wrong, msg=other):
                plain(self.turn(process_status=status(**other)))

    def test_lost_output_is_wrong(self) -> None:
        read = {"chunk": "", "cursor": 0, "eof": True}
        with self.assertRaises(Wrong):
            stdin(self.turn(write_stdin={}, close_stdin={}, read_process=read, process_status=status()))

    def test_a_start_that_must_fail_and_does_not_is_wrong(self) -> None:
        with self.assertRaises(Wrong):
            failing(self.turn())


class Levels(unittest.TestCase):
    WAS = Level(12, 4, 0, 20_000)

    def test_the_same_level_passes_and_memory_has_its_bound(self) -> None:
        self.assertEqual(compared(self.WAS, self.WAS, 0), [])
        self.assertEqual(compared(self.WAS, Level(12, 4, 0, 22_048), 2048), [])
        self.assertEqual(len(compared(self.WAS, Level(12, 4, 0, 22_049), 2048)), 1)
        self.assertEqual(compared(self.WAS, Level(12, 4, 0, 1000), 0), [])

    def test_one_more_or_less_of_anything_else_fails(self) -> None:
        for now in (Level(13, 4, 0, 20_000), Level(11, 4, 0, 20_000), Level(12, 5, 0, 20_000), Level(12, 4, 1, 20_000)):
            self.assertEqual(len(compared(self.WAS, now, 2048)), 1, now)

    @unittest.skipUnless(sys.platform == "linux", "reads /proc")
    def test_a_level_is_read_from_a_process(self) -> None:
        before = level(os.getpid())
        with open("/dev/null"):
            self.assertEqual(level(os.getpid()).descriptors, before.descriptors + 1)
        self.assertGreater(before.memory_kib, 0)


if __name__ == "__main__":
    unittest.main()
