"""Reads the output of test runs (stdin), prints `PASSED FAILED`: the sum over cargo's, unittest's and node's summaries."""

import re
import sys

CARGO = re.compile(r"^test result: .*?(\d+) passed; (\d+) failed;")
UNITTEST_RAN = re.compile(r"^Ran (\d+) tests? in ")
NODE = re.compile(r"^# (pass|fail|cancelled) (\d+)$")
UNITTEST_END = re.compile(r"^(?:OK|FAILED)(?: \((.*)\))?$")


def count(lines) -> tuple[int, int]:
    passed = failed = ran = 0
    for line in lines:
        if found := CARGO.match(line):
            passed += int(found[1])
            failed += int(found[2])
        elif found := NODE.match(line):
            if found[1] == "pass":
                passed += int(found[2])
            else:
                failed += int(found[2])
        elif found := UNITTEST_RAN.match(line):
            ran = int(found[1])
        elif ran and (found := UNITTEST_END.match(line.rstrip())):
            # "failures=1, errors=2, skipped=3": what was skipped is neither passed nor failed.
            notes = dict(note.split("=") for note in (found[1] or "").split(", ") if "=" in note)
            bad = sum(int(notes.get(kind, 0)) for kind in ("failures", "errors", "unexpected successes"))
            failed += bad
            passed += max(ran - bad - int(notes.get("skipped", 0)), 0)
            ran = 0
    return passed, failed


if __name__ == "__main__":
    # Tests may print any bytes.
    sys.stdin.reconfigure(errors="replace")
    print(*count(sys.stdin))
