"""The official conformance suite against `codespace-mcp` over HTTP: the released one, and the coming one for the protocols of
2025-11-25 and 2026-07-28. What is expected of each scenario is in conformance.toml; nothing of the suite is passed over.
"""

import json
import re
import subprocess
import tomllib
import unittest
from pathlib import Path

import gateway
from gateway import IN_PROCESS, WORKSPACE, GatewayCase
from mcp import Client

EXPECTED = tomllib.loads((Path(__file__).parent / "conformance.toml").read_text())
# A scenario's folder has the time in its name.
FOLDER = re.compile(r"server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z")


def suite(package: str, *arguments: str, cwd: Path | None = None) -> str:
    """Runs the suite, which tells failures in its files. Returns what it printed."""
    program = gateway.CLIENTS / "node_modules" / package / "dist/index.js"
    command = [gateway.node(), program, *arguments]
    ran = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, cwd=cwd
    )
    return ran.stdout


class Conformance(GatewayCase):
    async def test_every_scenario_does_what_is_expected_of_it(self) -> None:
        # The suite cannot send a token.
        url = self.serve_http(IN_PROCESS, "--no-token")
        async with Client(url) as client:
            # Something to list and to read.
            await client.call_tool("exec_command", {"workspace_id": WORKSPACE, "command": ["echo", "hi"]})
        for run in EXPECTED["run"]:
            with self.subTest(run["name"]):
                self.one(url, run)

    def one(self, url: str, run: dict) -> None:
        results = self.folder / run["name"]
        arguments = ["server", "--url", url, "--suite", "all", "--output-dir", str(results), *run["arguments"]]
        printed = suite(run["package"], *arguments, cwd=self.folder)
        found = {}
        for path in sorted(results.glob("*/checks.json")):
            name = FOLDER.fullmatch(path.parent.name)
            self.assertTrue(name, f"{path.parent.name} names no scenario")
            found[name[1]] = json.loads(path.read_text())
        self.assertTrue(found, printed)

        not_claimed = {name for names in run["not_claimed"].values() for name in names}
        self.assertLessEqual(run["not_claimed"].keys(), EXPECTED["why"].keys())
        self.assertEqual(sorted(found), sorted([*run["pass"], *not_claimed]), "each scenario of the suite is known")
        for name, checks in found.items():
            with self.subTest(name):
                passed = [check["id"] for check in checks if check["status"] in ("SUCCESS", "INFO")]
                failed = [check["id"] for check in checks if check["status"] == "FAILURE"]
                expected = run["fail"].get(name, [name]) if name in not_claimed else []
                self.assertEqual(failed, expected, checks)
                remarked = [check["id"] for check in checks if check["id"] not in passed + failed]
                self.assertEqual(remarked, run["remarked"].get(name, []), checks)
                self.assertTrue(passed or failed, "something was looked at")

    def test_no_scenario_of_the_suite_is_passed_over(self) -> None:
        for package in {run["package"] for run in EXPECTED["run"]}:
            listed = set(re.findall(r"^ +- (\S+)", suite(package, "list", "--server"), re.MULTILINE))
            self.assertIn("server-initialize", listed)
            runs = [run for run in EXPECTED["run"] if run["package"] == package]
            known = {name for run in runs for name in run["pass"]}
            known |= {name for run in runs for names in run["not_claimed"].values() for name in names}
            for entry in EXPECTED["not_run"]:
                self.assertIn(entry["why"], EXPECTED["why"])
                known |= set(entry["scenarios"]) if entry["package"] == package else set()
            self.assertEqual(listed, known, package)


if __name__ == "__main__":
    unittest.main()
