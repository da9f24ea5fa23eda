"""Starts codespace-mcp as an agent's client does, calls exec_command once, and prints what a model would read."""

import argparse
import json
import subprocess
import sys


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", required=True, help="codespace-mcp")
    parser.add_argument("--workspace", required=True, help="where it is started: the workspace `default`")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "quickstart", "version": "1"}}
    call = {"name": "exec_command", "arguments": {"workspace_id": "default", "command": options.command}}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call},
    ]
    # It answers what it was asked before its stdin ended, and then ends itself.
    lines = "".join(json.dumps(message) + "\n" for message in messages)
    run = subprocess.run([options.server], input=lines, stdout=subprocess.PIPE, text=True, cwd=options.workspace, timeout=60)
    answers = {answer.get("id"): answer for answer in map(json.loads, run.stdout.splitlines())}
    if run.returncode or 2 not in answers:
        print(f"call_tool: {options.server} ended with {run.returncode} and answered {run.stdout!r}", file=sys.stderr)
        return 1
    result = answers[2].get("result") or {"content": [{"text": str(answers[2])}], "isError": True}
    print(result["content"][0]["text"], end="")
    return 1 if result.get("isError") else 0


if __name__ == "__main__":
    sys.exit(main())
