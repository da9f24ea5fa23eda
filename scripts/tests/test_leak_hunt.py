"""What the leak hunt counts can be believed: it finds nothing where nothing is left, finds what is left by whom it was
left, ends that, and fails only for what this Runner leaves."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(SCRIPTS / "lib"))
from end_during_start import carrying  # noqa: E402
from leak_hunt import Row, judged, laid_out  # noqa: E402
from leak_hunt_try import Try  # noqa: E402

HUNT = SCRIPTS / "leak-hunt"
FAKE = SCRIPTS / "tests/fake_runner.py"
# Starts the command after `--` in a session of its own and does nothing for its end.
CARELESS_BWRAP = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
shift
setsid "$@" &
wait
"""


@unittest.skipUnless(sys.platform == "linux", "reads /proc")
class LeakHunt(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.bwrap = Path(folder.name) / "bwrap"
        self.bwrap.write_text(CARELESS_BWRAP)
        self.bwrap.chmod(0o755)

    def command(self, causes: list[str], tries: int) -> list[str]:
        return [str(HUNT), "--runner", str(FAKE), "--bwrap", str(self.bwrap), "--tries", str(tries), "--json", "--only", *causes]

    def hunt(self, *causes: str, mode: str = "honest", tries: int = 8) -> tuple[int, dict]:
        run = subprocess.run(self.command(list(causes), tries), capture_output=True, text=True, timeout=60,
                             env=os.environ | {"FAKE_RUNNER": mode})
        self.assertNotEqual(run.stdout, "", run.stderr)
        told = json.loads(run.stdout)
        self.assertEqual([row["tries"] for row in told["rows"]], [tries] * len(causes))
        return run.returncode, told

    def test_a_runner_that_ends_what_it_starts_passes(self) -> None:
        for _ in range(3):
            code, told = self.hunt("terminate", tries=20)
            # On a machine that was busy only while the start was measured, the ends come too late.
            if not any("landed" in failure for failure in told["failures"]):
                break
        (row,) = told["rows"]
        self.assertEqual((code, row["survivors"], row["started_afterwards"], told["failures"]), (0, 0, 0, []), told)
        self.assertGreater(row["during_start"], 0)

    def test_what_a_runner_leaves_is_counted_named_and_ended_and_fails_the_run(self) -> None:
        code, told = self.hunt("terminate", mode="leak")
        (row,) = told["rows"]
        self.assertEqual((code, row["survivors"]), (1, 8), told)
        mark = row["problems"][0].split()[-1]
        self.assertRegex(mark, r"^\d{10}$")
        self.assertEqual(carrying(mark), set())

    def test_what_outlives_a_killed_runner_is_found_though_nobody_names_it(self) -> None:
        code, told = self.hunt("kill-runner")
        (row,) = told["rows"]
        self.assertEqual(code, 1, told)
        self.assertGreater(row["survivors"], 0, told)

    def test_what_bwrap_leaves_is_shown_and_fails_nothing(self) -> None:
        code, told = self.hunt("bwrap-kill")
        (row,) = told["rows"]
        self.assertGreater(row["survivors"], 0, told)
        self.assertEqual([failure for failure in told["failures"] if "landed" not in failure], [], told)
        self.assertEqual(code, int(bool(told["failures"])), told)

    def test_the_lines_of_both_stand_in_turn(self) -> None:
        _, told = self.hunt("terminate", "bwrap-term", "bwrap-parent", tries=1)
        self.assertEqual([row["who"] for row in told["rows"]], ["plain bwrap", "ours", "plain bwrap"], told)

    def test_an_interrupted_run_shows_what_it_has_and_leaves_nothing(self) -> None:
        hunt = subprocess.Popen(self.command(["bwrap-kill"], 80), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            seen = ""
            while "10 of 80" not in seen:
                more = hunt.stderr.read(1)
                self.assertNotEqual(more, "", seen)
                seen += more
            hunt.send_signal(signal.SIGTERM)
            out, _ = hunt.communicate(timeout=30)
        finally:
            hunt.kill()
            hunt.wait()
        (row,) = json.loads(out)["rows"]
        self.assertEqual((hunt.returncode, row["tries"] >= 10), (130, True), out)
        mark = row["problems"][0].split()[-1]
        self.assertEqual(carrying(mark), set())


class Counting(unittest.TestCase):
    def test_only_what_starts_after_the_end_has_started_afterwards(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            before, after, never = (Try(Path(folder) / name) for name in ("before", "after", "never"))
            before.marker.touch()
            for one in (before, after, never):
                one.ending()
                one.over()
            after.marker.touch()
            self.assertEqual([one.during_start for one in (before, after, never)], [False, True, True])
            self.assertIsNone(before.started_afterwards_ms())
            self.assertIsNone(never.started_afterwards_ms())
            self.assertLess(after.started_afterwards_ms(), 1000)
            killed = Try(Path(folder) / "killed")
            killed.over(answered=False)
            killed.marker.touch()
            self.assertIsNone(killed.started_afterwards_ms(), "the first act of a command that was there already")
            row = Row("ours", "terminate")
            row.add([before, after, never])
            self.assertEqual((row.tries, row.during_start, row.started_afterwards), (3, 2, 1))

    def test_a_run_fails_for_what_ours_leaves_and_when_too_few_ends_landed_in_a_start(self) -> None:
        bwrap = Row("plain bwrap", "SIGKILL", tries=8, during_start=6, survivors=3, started_afterwards=1)
        self.assertEqual(judged([bwrap, Row("ours", "terminate", tries=8, during_start=2)]), [])
        for fault in ({"survivors": 1}, {"started_afterwards": 1}, {"problems": ["not confirmed"]}, {"during_start": 1}):
            row = Row("ours", "terminate", **({"tries": 8, "during_start": 6} | fault))
            self.assertEqual(len(judged([bwrap, row])), 1, fault)

    def test_the_table_has_a_line_for_each_and_columns_in_line(self) -> None:
        lines = laid_out([Row("ours", "terminate", 12345), Row("plain bwrap", "SIGKILL", latest_start_ms=7.4)]).splitlines()
        self.assertEqual(len(lines), 3)
        self.assertEqual(lines[1].index("12345") + 5, lines[0].index("tries") + 5)
        self.assertTrue(lines[2].endswith("7 ms later"), lines)


if __name__ == "__main__":
    unittest.main()
