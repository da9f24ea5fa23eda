#!/usr/bin/env python3
"""A Runner for the tests of the scripts: the wire of `serve`, one client, and unsandboxed commands.

With FAKE_RUNNER=leak it answers that a process was ended whole and leaves it running; with FAKE_RUNNER=late its starts
are answered before an end can land in them. The test that uses it ends what it left.
"""

import json
import os
import socket
import struct
import subprocess
import sys
import time

MODE = os.environ.get("FAKE_RUNNER", "honest")


def main() -> None:
    assert sys.argv[1:3] == ["serve", "--socket"], sys.argv
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(sys.argv[3])
    listener.listen()
    stream = listener.accept()[0].makefile("rwb")
    running: dict[str, subprocess.Popen] = {}
    pending: dict[str, int] = {}
    while size := stream.read(4):
        request = json.loads(stream.read(struct.unpack(">I", size)[0]))
        method, params, number = request["method"], request["params"], request["id"]
        if method == "hello":
            answer(stream, number, {"protocol": params["protocol"]})
        elif method == "exec":
            key = params["process_key"]
            # What is left must not hold the pipe of the test that reads our stderr.
            quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            running[key] = subprocess.Popen(params["command"], start_new_session=True, **quiet)
            time.sleep(0.01)
            if MODE == "late" or key.startswith("measure"):
                answer(stream, number, {"process_id": f"proc-{key}"})
            else:
                pending[key] = number
        elif method == "terminate_process":
            key = params["process_key"]
            if MODE != "leak" or key.startswith("measure"):
                running[key].kill()
                running[key].wait()
            status = {"state": "exited", "ended_by": "terminate", "tree": {"confirmed": True, "took_ms": 1}}
            # An answer to something that was asked earlier may come later than this one.
            answer(stream, number, status)
            if key in pending:
                answer(stream, pending.pop(key), {"process_id": f"proc-{key}", "status": status})
        elif method == "stop":
            answer(stream, number, {"ended": 0})
            return
        else:
            error = {"code": -32601, "message": "no such method", "data": {"code": "INTERNAL", "message": method}}
            send(stream, {"jsonrpc": "2.0", "id": number, "error": error})


def answer(stream, number: int, result: dict) -> None:
    send(stream, {"jsonrpc": "2.0", "method": "output", "params": {}})
    send(stream, {"jsonrpc": "2.0", "id": number, "result": result})


def send(stream, message: dict) -> None:
    body = json.dumps(message).encode()
    stream.write(struct.pack(">I", len(body)) + body)
    stream.flush()


if __name__ == "__main__":
    main()
