"""Compares third_party/upstreams.toml with Cargo.lock, with the MCP clients of the tests, and with the bubblewrap that is
installed.

Owns the reading and re-recording of that file. Never downloads, never decides that a new bubblewrap is good: a version
enters `tested_versions` by hand, after scripts/test has passed with it.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

CLIENTS = "scripts/clients"
HELPER_MANIFEST = "crates/linux-sandbox/Cargo.toml"
PROGRAM_FIELDS = {"name": str, "tested_versions": list, "license": str, "source": str, "use": str, "why": str}
TRY = "try it with CODESPACE_TRY_BUBBLEWRAP={} scripts/test, then add it to the record"
CRATE_FIELDS = {"name": str, "version": str, "license": str, "why": str}


def main() -> int:
    parser = argparse.ArgumentParser(prog="check-upstream-pin.sh", description=__doc__)
    parser.add_argument("--record", action="store_true", help="write the crate versions of Cargo.lock into the record")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2], help="the repository")
    options = parser.parse_args()
    record_path = options.root / "third_party/upstreams.toml"
    try:
        locked = locked_versions(options.root)
        if options.record:
            changed = record_versions(record_path, locked)
            print(f"recorded {changed} changed versions")
        record = tomllib.loads(record_path.read_text())
    except (OSError, ValueError) as error:
        print(f"check-upstream-pin: failed to read the record or the lock file: {error}", file=sys.stderr)
        return 1
    problems = check_shape(record)
    if not problems:
        problems = check_crates(record, locked, options.root) + check_programs(record)
        problems += check_clients(record.get("client", []), options.root / CLIENTS)
    for problem in problems:
        print(f"check-upstream-pin: {problem}", file=sys.stderr)
    if problems:
        return 1
    counts = [f"{len(record['crate'])} crates", f"{len(record['program'])} external programs"]
    print("upstream pins ok: " + ", ".join([*counts, f"{len(record.get('client', []))} clients"]))
    return 0


def locked_versions(root: Path) -> dict[str, list[str]]:
    """Crate name -> the versions of it in Cargo.lock."""
    versions: dict[str, list[str]] = {}
    for package in tomllib.loads((root / "Cargo.lock").read_text())["package"]:
        versions.setdefault(package["name"], []).append(package["version"])
    return versions


def check_shape(record: dict) -> list[str]:
    problems = []
    for kind, fields in (("program", PROGRAM_FIELDS), ("crate", CRATE_FIELDS), ("client", CRATE_FIELDS)):
        entries = record.get(kind)
        if entries is None and kind == "client":
            continue
        if not isinstance(entries, list) or not entries:
            problems.append(f"the record has no [[{kind}]]")
            continue
        names = [entry.get("name") for entry in entries]
        problems += [f"{kind} {name} is recorded twice" for name in sorted({str(n) for n in names if names.count(n) > 1})]
        for entry in entries:
            for field, kind_of_field in fields.items():
                if not isinstance(entry.get(field), kind_of_field) or not entry[field]:
                    problems.append(f"{kind} {entry.get('name', '?')}: {field} is missing or of the wrong kind")
    return problems


def check_crates(record: dict, locked: dict[str, list[str]], root: Path) -> list[str]:
    problems = []
    for crate in record["crate"]:
        versions = locked.get(crate["name"], [])
        if not versions:
            problems.append(f"crate {crate['name']} is recorded but not in Cargo.lock; take its entry out")
        elif versions != [crate["version"]]:
            found = ", ".join(versions)
            problems.append(
                f"crate {crate['name']}: {crate['version']} is recorded, Cargo.lock has {found}; "
                "look at what changed, then scripts/check-upstream-pin.sh --record"
            )
    recorded = {crate["name"] for crate in record["crate"]}
    for name in sorted(helper_dependencies(root) - recorded):
        problems.append(f"crate {name} is linked into the sandbox helper ({HELPER_MANIFEST}) but not recorded")
    return problems


def check_clients(recorded: list[dict], folder: Path) -> list[str]:
    """What the tests install by name is recorded, in just the version that they install."""
    if not folder.exists():
        return [f"client {entry['name']} is recorded, but there is no {CLIENTS}" for entry in recorded]
    wanted = {}
    manifest = json.loads((folder / "package.json").read_text())
    for name, version in (manifest["dependencies"] | manifest["optionalDependencies"]).items():
        # "npm:NAME@VERSION" is NAME under another name.
        wanted[name] = version.rpartition("@")[2]
    python = dict(re.findall(r"^([\w.-]+)==(\S+)$", (folder / "requirements.txt").read_text(), re.MULTILINE))
    wanted["mcp"] = python.get("mcp", "nothing")
    have = {entry["name"]: entry["version"] for entry in recorded}
    return [
        f"client {name}: {have.get(name, 'nothing')} is recorded, {CLIENTS} installs {wanted.get(name, 'nothing')}"
        for name in sorted(wanted.keys() | have.keys())
        if wanted.get(name) != have.get(name)
    ]


def helper_dependencies(root: Path) -> set[str]:
    """The outside crates that the helper's manifest names for its normal build."""
    manifest = tomllib.loads((root / HELPER_MANIFEST).read_text())
    tables = [manifest, *manifest.get("target", {}).values()]
    names = {name for table in tables for name in table.get("dependencies", {})}
    return {name for name in names if not name.startswith("codespace-")}


def check_programs(record: dict) -> list[str]:
    problems = []
    for program in record["program"]:
        command = program.get("command", program["name"])
        tested = ", ".join(program["tested_versions"])
        version = installed_version(command)
        if version is None:
            missing = f"{command} is missing or tells no version (tested: {tested})"
            if os.environ.get("CODESPACE_REQUIRE_LINUX_SANDBOX") == "1":
                problems.append(f"{missing}, and CODESPACE_REQUIRE_LINUX_SANDBOX=1 says that it must be there")
            else:
                print(f"check-upstream-pin: NOTICE: {missing}; its version was NOT checked", file=sys.stderr)
        elif version in program["tested_versions"]:
            continue
        elif version == os.environ.get("CODESPACE_TRY_BUBBLEWRAP"):
            print(f"check-upstream-pin: NOTICE: {command} {version} is being tried, tested: {tested}", file=sys.stderr)
        else:
            problems.append(f"{command} {version} is installed, tested: {tested}; {TRY.format(version)}")
    return problems


def installed_version(command: str) -> str | None:
    try:
        run = subprocess.run([command, "--version"], capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r"\d+(?:\.\d+)+", run.stdout)
    return found.group() if found else None


def record_versions(path: Path, locked: dict[str, list[str]]) -> int:
    """Rewrites `version` of every [[crate]] line by line, so that comments and order stay. Returns how many changed."""
    lines = path.read_text().splitlines(keepends=True)
    table = name = None
    changed = 0
    for number, line in enumerate(lines):
        if header := re.match(r"\[\[?([\w-]+)\]\]?", line):
            table, name = header.group(1), None
        elif found := re.match(r'name = "([^"]+)"', line):
            name = found.group(1)
        elif table == "crate" and name and line.startswith("version = "):
            versions = locked.get(name, [])
            if len(versions) != 1:
                continue  # The check that follows says what is wrong.
            new = f'version = "{versions[0]}"\n'
            changed += new != line
            lines[number] = new
    path.write_text("".join(lines))
    return changed


if __name__ == "__main__":
    sys.exit(main())
