"""The pin check holds the record to Cargo.lock and to the installed bubblewrap, and fails in each way that it can."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

IMPLEMENTATION = Path(__file__).resolve().parents[1] / "lib/upstream_pin.py"

RECORD = """# a comment that stays
[[program]]
name = "bubblewrap"
command = "bwrap"
tested_versions = ["0.8.0"]
license = "LGPL-2.0-or-later"
source = "https://example.org"
use = "run"
why = "sandbox"

[[crate]]
name = "libc"
version = "0.2.1"
license = "MIT"
why = "calls"
"""
LOCK = '[[package]]\nname = "libc"\nversion = "0.2.1"\n'
HELPER = '[dependencies]\ncodespace-domain = "1"\n[target."cfg(unix)".dependencies]\nlibc = "0.2"\n[dev-dependencies]\ntempfile = "3"\n'


class UpstreamPin(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.write("third_party/upstreams.toml", RECORD)
        self.write("Cargo.lock", LOCK)
        self.write("crates/linux-sandbox/Cargo.toml", HELPER)
        self.install_bwrap("bubblewrap 0.8.0")

    def write(self, path: str, text: str) -> Path:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)
        return self.root / path

    def install_bwrap(self, answer: str) -> None:
        self.write("bin/bwrap", f"#!/bin/sh\necho '{answer}'\n").chmod(0o755)

    def check(self, *options: str, required: bool = True, tried: str = "") -> subprocess.CompletedProcess[str]:
        env = {"PATH": f"{self.root}/bin", "CODESPACE_REQUIRE_LINUX_SANDBOX": "1" if required else "0"}
        env["CODESPACE_TRY_BUBBLEWRAP"] = tried
        command = [sys.executable, IMPLEMENTATION, "--root", self.root, *options]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, env=env)

    def assert_refused(self, words: str) -> None:
        run = self.check()
        self.assertEqual(run.returncode, 1, run)
        self.assertIn(words, run.stderr)

    def test_a_record_that_fits_passes(self) -> None:
        run = self.check()
        self.assertEqual((run.returncode, run.stdout), (0, "upstream pins ok: 1 crates, 1 external programs, 0 clients\n"), run)

    def test_clients_of_the_tests_are_recorded_in_the_version_that_is_installed(self) -> None:
        self.write("scripts/clients/requirements.txt", "# pinned\nmcp==1.2\nother==3\n")
        manifest = {"dependencies": {"next": "npm:suite@2.0-alpha.1"}, "optionalDependencies": {}}
        self.write("scripts/clients/package.json", json.dumps(manifest))
        entry = '[[client]]\nname = "{}"\nversion = "{}"\nlicense = "MIT"\nwhy = "tests"\n'
        record = self.write("third_party/upstreams.toml", RECORD + entry.format("mcp", "1.2"))
        self.assert_refused("client next: nothing is recorded, scripts/clients installs 2.0-alpha.1")
        record.write_text(RECORD + entry.format("mcp", "1.1") + entry.format("next", "2.0-alpha.1"))
        self.assert_refused("client mcp: 1.1 is recorded, scripts/clients installs 1.2")
        record.write_text(RECORD + entry.format("mcp", "1.2") + entry.format("next", "2.0-alpha.1"))
        self.assertEqual(self.check().returncode, 0)

    def test_another_version_in_the_lock_file_fails_until_it_is_recorded(self) -> None:
        self.write("Cargo.lock", LOCK.replace("0.2.1", "0.2.2"))
        self.assert_refused("libc: 0.2.1 is recorded, Cargo.lock has 0.2.2")
        run = self.check("--record")
        self.assertEqual(run.returncode, 0, run)
        self.assertEqual((self.root / "third_party/upstreams.toml").read_text(), RECORD.replace("0.2.1", "0.2.2"))
        self.assertEqual(self.check().returncode, 0)

    def test_two_versions_in_the_lock_file_fail(self) -> None:
        self.write("Cargo.lock", LOCK + LOCK.replace("0.2.1", "0.1.9"))
        self.assert_refused("Cargo.lock has 0.2.1, 0.1.9")
        self.assertEqual(self.check("--record").returncode, 1)

    def test_a_recorded_crate_that_is_gone_fails(self) -> None:
        self.write("Cargo.lock", LOCK.replace("libc", "other"))
        self.assert_refused("libc is recorded but not in Cargo.lock")

    def test_a_crate_of_the_helper_that_is_not_recorded_fails(self) -> None:
        self.write("crates/linux-sandbox/Cargo.toml", HELPER.replace('libc = "0.2"', 'libc = "0.2"\nnix = "0.30"'))
        self.assert_refused("nix is linked into the sandbox helper")

    def test_an_untested_bubblewrap_fails(self) -> None:
        self.install_bwrap("bubblewrap 0.11.0")
        self.assert_refused("bwrap 0.11.0 is installed, tested: 0.8.0")

    def test_the_bubblewrap_that_is_named_for_a_try_passes_with_a_notice(self) -> None:
        self.install_bwrap("bubblewrap 0.11.0")
        run = self.check(tried="0.11.0")
        self.assertEqual(run.returncode, 0, run)
        self.assertIn("NOTICE: bwrap 0.11.0 is being tried", run.stderr)
        self.assertEqual(self.check(tried="0.10.0").returncode, 1)

    def test_a_missing_bubblewrap_fails_where_the_sandbox_is_required(self) -> None:
        (self.root / "bin/bwrap").unlink()
        self.assert_refused("bwrap is missing")

    def test_a_missing_bubblewrap_is_a_loud_notice_elsewhere(self) -> None:
        (self.root / "bin/bwrap").unlink()
        run = self.check(required=False)
        self.assertEqual(run.returncode, 0, run)
        self.assertIn("NOTICE: bwrap is missing", run.stderr)

    def test_a_bubblewrap_without_a_version_fails(self) -> None:
        self.install_bwrap("hello")
        self.assert_refused("tells no version")

    def test_a_missing_field_fails(self) -> None:
        self.write("third_party/upstreams.toml", RECORD.replace('license = "MIT"\n', ""))
        self.assert_refused("crate libc: license is missing")

    def test_a_crate_that_is_recorded_twice_fails(self) -> None:
        self.write("third_party/upstreams.toml", RECORD + RECORD[RECORD.index("[[crate]]") :])
        self.assert_refused("libc is recorded twice")

    def test_a_broken_record_fails_without_a_traceback(self) -> None:
        self.write("third_party/upstreams.toml", "[[program")
        self.assert_refused("failed to read the record")


if __name__ == "__main__":
    unittest.main()
