"""The kinds of short processes of the soak: each starts one, follows it to its end, and holds the answers to the promise.

Owns what is right for each kind. Knows nothing of how many there are, nor of the Runner's descriptors and memory.
"""

import base64
import random
from collections.abc import Callable
from dataclasses import dataclass

from runner_client import RunnerClient, RunnerError

WORKSPACE = "default"
# Far longer than any of them takes, also on a busy machine.
WAIT_MS = 60_000
# What a start keeps of its request must not stay when it is over.
LARGE = 96 * 1024


class Wrong(Exception):
    """An answer that breaks the promise."""


@dataclass
class Turn:
    """One process: who asks for it, its key, and the chance that its kind draws from."""

    client: RunnerClient
    key: str
    chance: random.Random

    def start(self, *command: str, **params: object) -> str:
        return self.client.call("exec", workspace_id=WORKSPACE, command=list(command), process_key=self.key, **params)["process_id"]

    def ended(self, process: str) -> dict:
        return self.client.call("process_status", process_id=process, wait_ms=WAIT_MS)

    def output(self, process: str) -> bytes:
        """Everything that is kept."""
        data, cursor = bytearray(), 0
        while True:
            read = self.client.call("read_process", process_id=process, cursor=cursor, wait_ms=WAIT_MS, max_bytes=1 << 20, encoding="base64")
            data += base64.b64decode(read["chunk"])
            cursor = read["cursor"]
            if read["eof"]:
                return bytes(data)


def expect(status: dict, cause: str, **more: object) -> None:
    """It has ended by this cause, and nothing of its tree is left."""
    tree = status.get("tree", {})
    told = {name: status.get(name) for name in more}
    if status["state"] != "exited" or status.get("ended_by") != cause or not tree.get("confirmed") or told != more:
        raise Wrong(f"{status['process_id']}: {status['state']}, by {status.get('ended_by')} not {cause}, tree {tree}, {told} not {more}")


def same(got: object, wanted: object, what: str) -> None:
    if got != wanted:
        raise Wrong(f"{what}: {str(got)[:200]!r}, not {str(wanted)[:200]!r}")


def plain(turn: Turn) -> None:
    code = turn.chance.randrange(256)
    expect(turn.ended(turn.start("sh", "-c", f"exit {code}")), "command", exit_code=code)


def tty(turn: Turn) -> None:
    rows, columns = turn.chance.randrange(1, 200), turn.chance.randrange(1, 200)
    process = turn.start("stty", "size", tty=True, rows=rows, cols=columns)
    expect(turn.ended(process), "command", exit_code=0)
    same(turn.output(process), f"{rows} {columns}\r\n".encode(), "the size of a terminal")


def stdin(turn: Turn) -> None:
    data = turn.chance.randbytes(turn.chance.randrange(1, 50_000))
    process = turn.start("cat", stdin="pipe")
    turn.client.call("write_stdin", process_id=process, data=base64.b64encode(data).decode(), encoding="base64")
    turn.client.call("close_stdin", process_id=process)
    same(turn.output(process), data, "what cat gives back")
    expect(turn.ended(process), "command", exit_code=0)


def output(turn: Turn) -> None:
    size = turn.chance.randrange(1, 300_000)
    process = turn.start("head", "-c", str(size), "/dev/zero")
    same(len(turn.output(process)), size, "bytes of output")
    expect(turn.ended(process), "command", exit_code=0)


def unread(turn: Turn) -> None:
    """Three times what is kept, and nobody reads it."""
    size = 3 * LARGE
    process = turn.start("sh", "-c", f"head -c {size} /dev/zero; head -c 1000 /dev/zero >&2", output_bytes=LARGE)
    status = turn.ended(process)
    expect(status, "command", exit_code=0, output_total=size + 1000)


def large_request(turn: Turn) -> None:
    process = turn.start("sh", "-c", "exit ${#LARGE_VALUE}", "x" * LARGE, env={"LARGE_VALUE": "y" * 200, "MORE": "z" * LARGE})
    expect(turn.ended(process), "command", exit_code=200)


def timeout(turn: Turn) -> None:
    """The time may be over before the command has begun."""
    process = turn.start("sleep", "1000", timeout_ms=turn.chance.randrange(1, 60))
    expect(turn.ended(process), "timeout", termination="timeout")


def terminated(turn: Turn) -> None:
    """At any moment of its start too."""
    script = turn.chance.choice(["exec sleep 1000", "sleep 1000 & setsid sleep 1000 & wait", "trap '' TERM INT HUP; while :; do sleep 0.01; done"])
    started = turn.client.send("exec", workspace_id=WORKSPACE, command=["sh", "-c", script], process_key=turn.key)
    if turn.chance.random() < 0.5:
        turn.client.wait(started)
        started = None
    status = turn.client.call("terminate_process", workspace_id=WORKSPACE, process_key=turn.key)
    expect(status, "terminate", termination="terminated")
    if started is not None:
        same(turn.client.wait(started)["process_id"], status["process_id"], "the process of a start that was ended")


def signaled(turn: Turn) -> None:
    process = turn.start("sleep", "1000")
    turn.client.call("signal_process", process_id=process, signal="KILL")
    expect(turn.ended(process), "command", termination="signaled")


def leftovers(turn: Turn) -> None:
    process = turn.start("sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & exit 3", linger_ms=0)
    expect(turn.ended(process), "command", exit_code=3)


def failing(turn: Turn) -> None:
    stage, command, params = turn.chance.choice([
        ("exec", ["/no/such/program"], {}),
        ("exec", ["/etc/passwd"], {}),
        ("cwd", ["true"], {"cwd": "no/such/directory"}),
    ])
    try:
        turn.start(*command, **params)
    except RunnerError as error:
        same((error.code, error.data.get("stage")), ("PROCESS_SPAWN_FAILED", stage), "a start that must fail")
        return
    raise Wrong(f"{command} with {params} has started")


KINDS: dict[str, Callable[[Turn], None]] = {
    kind.__name__: kind
    for kind in (plain, tty, stdin, output, unread, large_request, timeout, terminated, signaled, leftovers, failing)
}
