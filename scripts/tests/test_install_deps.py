"""install-deps is quiet when all is there, installs what is missing through apt, and says what to do where it cannot."""

import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

INSTALL = Path(__file__).resolve().parents[1] / "install-deps"
PROGRAMS = ("git", "cc", "bwrap", "setpriv", "python3", "cargo")


class InstallDeps(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.bin = Path(folder.name)
        for tool in ("env", "bash", "sh", "touch", "chmod"):
            (self.bin / tool).symlink_to(shutil.which(tool))
        for program in PROGRAMS:
            self.stub(program)
        self.stub("uname", "echo Linux")
        self.stub("id", "echo 0")

    def stub(self, name: str, body: str = "exit 0") -> None:
        (self.bin / name).write_text(f"#!/bin/sh\n{body}\n")
        (self.bin / name).chmod(0o755)

    def apt(self, brings: str) -> None:
        """An apt-get that logs what it is asked, and whose install brings one program."""
        program = f"{self.bin}/{brings}"
        self.stub("apt-get", f'echo "$*" >>{self.bin}/log\ncase "$*" in *install*) touch {program}; chmod 755 {program};; esac')

    def run_it(self, *options: str) -> subprocess.CompletedProcess[str]:
        command = [self.bin / "bash", INSTALL, *options]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, env={"PATH": str(self.bin)})

    def assert_says(self, *words: str) -> None:
        run = self.run_it()
        self.assertEqual(run.returncode, 1, run)
        for word in words:
            self.assertIn(word, run.stderr)

    def test_it_is_quiet_when_all_is_there(self) -> None:
        run = self.run_it()
        self.assertEqual((run.returncode, run.stdout, run.stderr), (0, "", ""))

    def test_what_is_missing_is_installed_and_a_second_run_does_nothing(self) -> None:
        (self.bin / "bwrap").unlink()
        self.apt(brings="bwrap")
        run = self.run_it()
        self.assertEqual(run.returncode, 0, run)
        asked = (self.bin / "log").read_text().splitlines()
        self.assertEqual(len(asked), 2, asked)
        self.assertTrue(asked[1].endswith("--no-install-recommends bubblewrap"), asked)
        self.assertEqual(self.run_it().stderr, "")
        self.assertEqual((self.bin / "log").read_text().splitlines(), asked)

    def test_a_user_installs_through_sudo(self) -> None:
        (self.bin / "git").unlink()
        self.stub("id", "echo 1000")
        self.stub("sudo", f'echo sudo >>{self.bin}/log; exec "$@"')
        self.apt(brings="git")
        self.assertEqual(self.run_it().returncode, 0)
        self.assertEqual((self.bin / "log").read_text().splitlines().count("sudo"), 2)

    def test_a_user_without_sudo_is_told_the_command(self) -> None:
        (self.bin / "cc").unlink()
        self.stub("id", "echo 1000")
        self.apt(brings="cc")
        self.assert_says("missing: cc", "apt-get install gcc libc6-dev")

    def test_without_apt_it_says_what_to_install(self) -> None:
        (self.bin / "bwrap").unlink()
        self.assert_says("missing: bwrap", "package manager")

    def test_a_package_that_does_not_bring_its_program_is_a_failure(self) -> None:
        (self.bin / "bwrap").unlink()
        self.apt(brings="something-else")
        self.assert_says("bwrap is still missing")

    def test_a_missing_cargo_is_not_installed_but_explained(self) -> None:
        (self.bin / "cargo").unlink()
        self.apt(brings="cargo")
        self.assert_says("cargo is missing", "https://rustup.rs")
        self.assertFalse((self.bin / "log").exists())

    def test_an_old_python_is_refused(self) -> None:
        self.stub("python3", 'test "$1" = -V && echo "Python 3.9.2"; exit 1')
        self.assert_says("Python 3.9.2", "3.11 or newer")

    def test_off_linux_no_sandbox_is_asked_for(self) -> None:
        self.stub("uname", "echo Darwin")
        (self.bin / "bwrap").unlink()
        (self.bin / "setpriv").unlink()
        self.assertEqual(self.run_it().returncode, 0)

    def test_what_clients_need_is_installed_only_for_them(self) -> None:
        self.apt(brings="npm")
        self.assertEqual(self.run_it().returncode, 0)
        self.assertFalse((self.bin / "log").exists())
        self.assertEqual(self.run_it("--clients").returncode, 0)
        self.assertTrue((self.bin / "log").read_text().splitlines()[1].endswith(" npm"))

    def test_a_python_without_environments_is_helped_or_refused(self) -> None:
        self.stub("npm")
        self.stub("python3", 'case "$2" in *ensurepip*) exit 1;; esac')
        self.apt(brings="other")
        run = self.run_it("--clients")
        self.assertEqual(run.returncode, 1, run)
        self.assertIn("cannot make environments", run.stderr)
        self.assertTrue((self.bin / "log").read_text().splitlines()[1].endswith(" python3-venv"))
        self.assertEqual(self.run_it().returncode, 0)

    def test_an_unknown_option_is_refused(self) -> None:
        self.assertEqual(self.run_it("--all").returncode, 2)


if __name__ == "__main__":
    unittest.main()
