"""scripts/test counts over all its steps, stops at the first that fails, and always ends with the count."""

import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(SCRIPTS / "lib"))
import count_tests  # noqa: E402

PASSING = """test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s
test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s"""


class Count(unittest.TestCase):
    def test_cargo_and_unittest_summaries_are_added_up(self) -> None:
        lines = [*PASSING.splitlines(), "test result: FAILED. 3 passed; 4 failed; 0 ignored;", "Ran 7 tests in 0.1s", "", "OK"]
        self.assertEqual(count_tests.count(lines), (17, 4))

    def test_nodes_summary_counts(self) -> None:
        lines = ["ok 1 - words\n", "# tests 6\n", "# pass 3\n", "# fail 2\n", "# cancelled 1\n", "# skipped 4\n", "    # pass 9\n"]
        self.assertEqual(count_tests.count(lines), (3, 3))

    def test_unittest_failures_errors_and_skips_are_told_apart(self) -> None:
        lines = ["Ran 9 tests in 0.1s\n", "\n", "FAILED (failures=1, errors=2, skipped=3)\n"]
        self.assertEqual(count_tests.count(lines), (3, 3))

    def test_other_lines_do_not_count(self) -> None:
        self.assertEqual(count_tests.count(["OK", "  test result: ok. 5 passed; 0 failed;", "5 passed"]), (0, 0))


class Steps(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        (self.root / "scripts/lib").mkdir(parents=True)
        (self.root / "scripts/tests").mkdir()
        for folder in ("browser", "clients"):
            (self.root / "scripts" / folder).mkdir()
        (self.root / "bin").mkdir()
        shutil.copy(SCRIPTS / "test", self.root / "scripts")
        shutil.copy(SCRIPTS / "lib/count_tests.py", self.root / "scripts/lib")
        programs = ("install-deps", "check-no-model-deps.sh", "check-upstream-pin.sh", "soak")
        for script in (*programs, "browser/install", "clients/install"):
            (self.root / "scripts" / script).write_text("true\n")
        for script in ("check_docs.py", "browser/test_page.py"):
            (self.root / "scripts" / script).write_text("")
        for folder in ("tests", "clients"):
            (self.root / "scripts" / folder / "test_one.py").write_text(
                "import unittest\nclass One(unittest.TestCase):\n    def test_one(self): pass\n"
            )
        (self.root / "target/clients/venv/bin").mkdir(parents=True)
        (self.root / "target/clients/venv/bin/python").symlink_to(sys.executable)
        self.stub("id", "echo 1000")
        self.stub("node", "printf '# pass 2\\n# fail 0\\n'")
        self.cargo("")
        (self.root / "target/debug/examples").mkdir(parents=True)
        for program in ("codespace-runner", "codespace-linux-sandbox"):
            (self.root / "target/debug" / program).write_text("")
        (self.root / "target/debug/examples/orchestrator").write_text("#!/bin/sh\n")
        (self.root / "target/debug/examples/orchestrator").chmod(0o755)

    def stub(self, name: str, body: str) -> None:
        (self.root / "bin" / name).write_text(f"#!/bin/sh\n{body}\n")
        (self.root / "bin" / name).chmod(0o755)

    def cargo(self, special: str) -> None:
        """A cargo that passes, with special cases in front."""
        self.stub("cargo", f"case \"$*\" in\n{special}\ntest*) cat <<'END'\n{PASSING}\nEND\n;;\nesac")

    def run_test(self) -> tuple[int, list[str]]:
        env = {"PATH": f"{self.root}/bin:{Path(sys.executable).parent}:/usr/bin:/bin"}
        command = ["bash", self.root / "scripts/test"]
        run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env, timeout=120)
        return run.returncode, run.stdout.splitlines()

    def test_all_steps_pass(self) -> None:
        code, lines = self.run_test()
        self.assertEqual((code, lines[-1]), (0, "18 passed, 0 failed"), lines)
        self.assertEqual(sum(line.startswith("== ") and " ok (" in line for line in lines), 16, lines)

    def test_a_step_without_tests_that_fails_counts_once_and_stops_the_rest(self) -> None:
        self.cargo("clippy*) echo nope; exit 101 ;;")
        code, lines = self.run_test()
        self.assertEqual((code, lines[-1]), (1, "0 passed, 1 failed"), lines)
        self.assertTrue(lines[-2].startswith("== lints FAILED"), lines)
        self.assertNotIn("== documents", lines)

    def test_a_failure_in_the_middle_of_a_step_is_not_lost(self) -> None:
        self.cargo("*--bins*fault-injection*) exit 101 ;;")
        code, lines = self.run_test()
        self.assertEqual((code, lines[-1]), (1, "0 passed, 1 failed"), lines)

    def test_failed_tests_are_counted(self) -> None:
        self.cargo("test*) echo 'test result: FAILED. 6 passed; 2 failed; 0 ignored;'; exit 101 ;;")
        code, lines = self.run_test()
        self.assertEqual((code, lines[-1]), (1, "7 passed, 2 failed"), lines)

    def test_failed_tests_fail_the_run_whatever_cargo_answers(self) -> None:
        self.cargo("test*) echo 'test result: FAILED. 6 passed; 2 failed; 0 ignored;' ;;")
        self.assertEqual(self.run_test()[0], 1)

    def test_a_test_program_that_dies_without_a_summary_is_a_failure(self) -> None:
        self.cargo("test*) echo 'signal: 6, SIGABRT'; exit 101 ;;")
        code, lines = self.run_test()
        self.assertEqual((code, lines[-1]), (1, "1 passed, 1 failed"), lines)

    def test_as_root_the_second_run_is_a_step_of_its_own(self) -> None:
        self.stub("id", "echo 0")
        again = "print('test result: ok. 3 passed; 0 failed; 0 ignored;')\n"
        (self.root / "scripts/lib/test_as_user.py").write_text(again)
        code, lines = self.run_test()
        self.assertEqual((code, lines[-1]), (0, "21 passed, 0 failed"), lines)
        self.assertIn("== tests as uid 65534", lines)


if __name__ == "__main__":
    unittest.main()
