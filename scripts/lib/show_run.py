"""Shows the JSON object of `codespace-runner run --json` (stdin) in a few lines: how it ended and what it used."""

import json
import sys


def main() -> int:
    try:
        answer = json.load(sys.stdin)
    except ValueError as error:
        print(f"show_run: {error}", file=sys.stderr)
        return 1
    status = answer.get("status", answer)
    if "state" not in status:
        print(json.dumps(answer, indent=2), file=sys.stderr)
        return 1
    output = (answer.get("output") or {}).get("chunk", "").strip()
    if output:
        print("\n".join(f"  | {line}" for line in output.splitlines()[-6:]))
    end = f"exit code {status['exit_code']}" if "exit_code" in status else status.get("termination", "still running")
    print(f"{end}, ended by {status.get('ended_by')}, sandbox {status.get('sandbox')}")
    usage, tree = status.get("usage", {}), status.get("tree", {})
    shown = [f"{usage[key] / 1000:.1f} s {word}" for key, word in SECONDS if key in usage]
    if "max_rss_bytes" in usage:
        shown.append(f"{usage['max_rss_bytes'] / 2**20:.0f} MiB in the largest process")
    print(f"used: {', '.join(shown) or 'not told by this platform'}")
    print(f"tree seen gone: {tree.get('confirmed')}, left running by the command: {tree.get('leftovers')}")
    return 0


SECONDS = (("wall_ms", "elapsed"), ("user_ms", "in user mode"), ("system_ms", "in the kernel"))

if __name__ == "__main__":
    sys.exit(main())
