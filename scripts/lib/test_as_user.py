"""Runs the tests of some packages again as another user, who can neither enter root's home nor run cargo.

Builds nothing new: it asks cargo for the test programs of the run before, copies them with the workspace's binaries and
the packages' folders to a place under /var/tmp that everybody can read, and runs each there through setpriv.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# How a test that runs outside cargo's directories finds the product.
BINARIES = {"CODESPACE_RUNNER_BIN": "codespace-runner", "CODESPACE_LINUX_SANDBOX_BIN": "codespace-linux-sandbox"}
# Programs that a test may have been given by name; they are copied as well.
GIVEN = ("CODESPACE_FAULT_RUNNER", "CODESPACE_FAULT_HELPER")
PASSED_ON = ("CODESPACE_", "PROPTEST_", "RUST_")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--uid", type=int, required=True)
    parser.add_argument("packages", nargs="+")
    options = parser.parse_args()
    # The same selections as in scripts/test, so that cargo finds everything built.
    artifacts = cargo_artifacts("build", "--bins") + cargo_artifacts("test", "--no-run")
    with tempfile.TemporaryDirectory(prefix="codespace-tests.", dir="/var/tmp") as folder:
        stage = Path(folder)
        tests = fill(stage, artifacts, options.packages)
        missing = set(options.packages) - {package for package, _ in tests}
        missing |= {binary for binary in BINARIES.values() if not (stage / "debug" / binary).exists()}
        if missing:
            print(f"test_as_user: cargo built no program of {', '.join(sorted(missing))}", file=sys.stderr)
            return 1
        environment = open_to(stage, options.uid)
        failed = [program.name for package, program in tests if not run(program, stage / package, environment, options.uid)]
    if failed:
        print(f"test_as_user: failed as uid {options.uid}: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def cargo_artifacts(verb: str, selection: str) -> list[dict]:
    """What cargo says of each program: `executable`, `manifest_path`, `target`, `profile`."""
    command = ["cargo", verb, "--locked", "--workspace", selection, "--message-format=json"]
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    messages = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return [message for message in messages if message["reason"] == "compiler-artifact" and message.get("executable")]


def fill(stage: Path, artifacts: list[dict], packages: list[str]) -> list[tuple[str, Path]]:
    """Lays the stage out like cargo's target directory: binaries above, tests in deps/. Returns (package, program)."""
    (stage / "debug/deps").mkdir(parents=True)
    (stage / "debug/examples").mkdir()
    tests = []
    for artifact in artifacts:
        program = Path(artifact["executable"])
        folder = Path(artifact["manifest_path"]).parent
        package = f"codespace-{folder.name}"
        if artifact["profile"]["test"]:
            if package not in packages:
                continue
            copy = stage / "debug/deps" / program.name
            tests.append((package, copy))
            if not (stage / package).exists():
                shutil.copytree(folder, stage / package)
        else:
            example = "example" in artifact["target"]["kind"]
            copy = stage / ("debug/examples" if example else "debug") / program.name
        shutil.copy2(program, copy)
    for variable in GIVEN:
        if variable in os.environ:
            (stage / "given" / variable).mkdir(parents=True)
            shutil.copy2(os.environ[variable], stage / "given" / variable)
    return tests


def open_to(stage: Path, uid: int) -> dict[str, str]:
    """Lets everybody read the stage, gives the user a home and a place for temporary files. Returns the environment."""
    for path in (stage, *stage.rglob("*")):
        mode = path.stat().st_mode
        path.chmod(mode | 0o444 | (0o111 if path.is_dir() or mode & 0o100 else 0))
    for own in ("home", "tmp"):
        (stage / own).mkdir(mode=0o700)
        os.chown(stage / own, uid, uid)
    environment = {name: value for name, value in os.environ.items() if name.startswith(PASSED_ON)}
    environment |= {"PATH": PATH, "LANG": "C.UTF-8", "HOME": f"{stage}/home", "TMPDIR": f"{stage}/tmp"}
    binaries = {program.name: str(program) for program in (stage / "debug").iterdir() if program.is_file()}
    # What cargo tells a test at run time, for the copies.
    environment |= {f"CARGO_BIN_EXE_{name}": path for name, path in binaries.items()}
    environment |= {variable: str(next((stage / "given" / variable).iterdir())) for variable in GIVEN if variable in os.environ}
    return environment | {variable: binaries[name] for variable, name in BINARIES.items()}


def run(program: Path, folder: Path, environment: dict[str, str], uid: int) -> bool:
    """One test program, in its package's folder as under cargo. Its output is ours."""
    print(f"     Running {program.name} as uid {uid}", flush=True)
    setpriv = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--"]
    return subprocess.run([*setpriv, program], cwd=folder, env=environment | {"CARGO_MANIFEST_DIR": str(folder)}).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
