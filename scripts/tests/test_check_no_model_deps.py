"""The no-model check passes on a clean tree and fails on each kind of planted client or endpoint."""

import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[1]
CHECK = SCRIPTS / "check-no-model-deps.sh"


class NoModelDeps(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.write("Cargo.toml", '[workspace]\nmembers = ["crates/*"]\n')
        self.write("Cargo.lock", '[[package]]\nname = "libc"\nversion = "0.2.0"\n')
        self.write("crates/runner/Cargo.toml", '[dependencies]\nlibc = "0.2"\n')
        self.write("crates/runner/src/lib.rs", "//! Runs commands.\n")

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def check(self) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["bash", CHECK, self.root], capture_output=True, text=True, timeout=60)

    def assert_refused(self, place: str) -> None:
        run = self.check()
        self.assertEqual(run.returncode, 1, run)
        self.assertIn(place, run.stderr)
        self.assertNotIn("no-model-deps ok", run.stdout)

    def test_a_clean_tree_passes(self) -> None:
        run = self.check()
        self.assertEqual((run.returncode, run.stdout), (0, "no-model-deps ok\n"), run)

    def test_this_repository_passes(self) -> None:
        run = subprocess.run(["bash", CHECK], capture_output=True, text=True, timeout=60)
        self.assertEqual(run.returncode, 0, run)

    def test_a_client_in_a_cargo_manifest_is_found(self) -> None:
        self.write("crates/runner/Cargo.toml", '[dependencies]\nasync-openai = "0.29"\n')
        self.assert_refused("./crates/runner/Cargo.toml:2")

    def test_a_client_in_the_lock_file_is_found(self) -> None:
        self.write("Cargo.lock", '[[package]]\nname = "rig-core"\nversion = "0.9.0"\n')
        self.assert_refused("./Cargo.lock:2")

    def test_a_client_in_a_package_manifest_is_found(self) -> None:
        self.write("web/package.json", '{"dependencies": {"@anthropic-ai/sdk": "1"}}\n')
        self.assert_refused("./web/package.json:1")

    def test_a_client_in_a_source_is_found(self) -> None:
        self.write("crates/runner/src/lib.rs", "use async_openai::Client;\n")
        self.assert_refused("./crates/runner/src/lib.rs:1")

    def test_a_client_in_a_script_is_found(self) -> None:
        self.write("scripts/summarise", "#!/usr/bin/env python3\nimport langchain_core\n")
        self.assert_refused("./scripts/summarise:2")

    def test_an_endpoint_in_a_source_is_found_in_any_case(self) -> None:
        self.write("crates/runner/src/lib.rs", 'const HOST: &str = "API.OpenAI.com";\n')
        self.assert_refused("./crates/runner/src/lib.rs:1")

    def test_a_dot_in_an_endpoint_is_a_dot(self) -> None:
        self.write("crates/runner/src/lib.rs", "// the api-x-ai of a vertex.ai\n")
        self.assertEqual(self.check().returncode, 0)

    def test_a_variable_of_the_environment_rules_is_no_client(self) -> None:
        self.write("crates/runner/src/lib.rs", 'const SECRET: &str = "OPENAI_API_KEY";\n')
        self.assertEqual(self.check().returncode, 0)

    def test_words_that_only_contain_a_name_are_left_alone(self) -> None:
        self.write("crates/runner/src/lib.rs", "// coherent, hellman, regenais, tllmp\n")
        self.assertEqual(self.check().returncode, 0)

    def test_an_empty_tree_is_no_clean_tree(self) -> None:
        with tempfile.TemporaryDirectory() as empty:
            run = subprocess.run(["bash", CHECK, empty], capture_output=True, text=True, timeout=60)
        self.assertNotEqual(run.returncode, 0, run)


if __name__ == "__main__":
    unittest.main()
