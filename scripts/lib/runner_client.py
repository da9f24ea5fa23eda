"""A client of the Runner's socket (docs/protocol.md): one connection, requests by number, answers in any order.

Owns framing and the matching of answers. Knows no method beyond `hello`, and starts or ends no process by itself.
"""

import json
import socket
import struct
import time
from pathlib import Path

MAX_FRAME = 16 * 1024 * 1024
PROTOCOL = 1


class RunnerError(Exception):
    """What the Runner refused, with its error code (`data.code`)."""

    def __init__(self, error: dict) -> None:
        data = error.get("data") or {}
        self.code = data.get("code", error.get("code"))
        self.data = data
        hint = f" ({data['hint']})" if data.get("hint") else ""
        super().__init__(f"{self.code}: {data.get('message', error.get('message'))}{hint}")


class RunnerClient:
    """Connects and says hello. `deadline_s` bounds every single wait."""

    def __init__(self, path: Path, name: str, deadline_s: float = 30.0) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._deadline_s = deadline_s
        self._socket.settimeout(deadline_s)
        self._last_id = 0
        self._answers: dict[int, dict] = {}
        try:
            self._socket.connect(str(path))
            self.hello = self.call("hello", protocol=PROTOCOL, client={"name": name, "version": "1"})
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> "RunnerClient":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, method: str, **params: object) -> int:
        """Sends a request without waiting. Requests take effect in the order sent. Returns the number to wait for."""
        self._last_id += 1
        request = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
        body = json.dumps(request).encode()
        self._socket.sendall(struct.pack(">I", len(body)) + body)
        return self._last_id

    def wait(self, number: int) -> dict:
        """The result of a request that was sent; raises RunnerError for a refusal, TimeoutError past the deadline."""
        end = time.monotonic() + self._deadline_s
        while number not in self._answers:
            message = self._receive(end)
            if message.get("id") is not None:
                self._answers[message["id"]] = message
        answer = self._answers.pop(number)
        if "error" in answer:
            raise RunnerError(answer["error"])
        return answer["result"]

    def call(self, method: str, **params: object) -> dict:
        return self.wait(self.send(method, **params))

    def _receive(self, end: float) -> dict:
        (size,) = struct.unpack(">I", self._exactly(4, end))
        if not 1 <= size <= MAX_FRAME:
            raise ConnectionError(f"a frame of {size} bytes is outside 1 to {MAX_FRAME}")
        return json.loads(self._exactly(size, end))

    def _exactly(self, size: int, end: float) -> bytes:
        data = bytearray()
        while len(data) < size:
            self._socket.settimeout(max(end - time.monotonic(), 0.001))
            part = self._socket.recv(size - len(data))
            if not part:
                raise ConnectionError("the Runner closed the connection")
            data += part
        return bytes(data)


def connect_when_ready(path: Path, name: str, still_starting, deadline_s: float = 10.0) -> RunnerClient:
    """Connects to a Runner that is just starting. `still_starting` says whether it is worth waiting on."""
    end = time.monotonic() + deadline_s
    while True:
        try:
            return RunnerClient(path, name)
        except (FileNotFoundError, ConnectionRefusedError):
            if not still_starting() or time.monotonic() > end:
                raise
            time.sleep(0.02)
