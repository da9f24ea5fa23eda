"""A headless Chromium, driven as the WebDriver standard says. Knows no page.

Reaches only this machine: every other name resolves to nothing. Everything that it writes is in a folder of its own, which
goes with it.
"""

import base64
import json
import os
import re
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

# No answer takes longer, unless it hangs.
SOON_S = 30
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
KEYS = {"Tab": "\ue004", "Enter": "\ue007", "Shift": "\ue008", "Escape": "\ue00c", "End": "\ue010", "Home": "\ue011", "Up": "\ue013", "Down": "\ue015"}


class WebDriverError(Exception):
    """What the driver said."""


class Browser:
    def __init__(self, browser: str, driver: str) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="codespace-browser.", ignore_cleanup_errors=True)
        home = Path(self.folder.name)
        environment = os.environ | {"HOME": str(home), "XDG_CONFIG_HOME": str(home / "config"), "XDG_CACHE_HOME": str(home / "cache")}
        self.driver = subprocess.Popen(
            [driver, "--port=0", "--allowed-ips=127.0.0.1"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        try:
            self.base = f"http://127.0.0.1:{self.port()}/session"
            options = {"binary": browser, "args": arguments(home / "profile")}
            wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
            started = self.ask("", {"capabilities": {"alwaysMatch": wanted}})
            self.base += f"/{started['sessionId']}"
        except BaseException:
            self.close()
            raise

    def port(self) -> str:
        for line in self.driver.stdout:
            if found := re.search(r"started successfully on port (\d+)", line):
                return found[1]
        raise WebDriverError("the driver did not start")

    def close(self) -> None:
        """Ends the browser and the driver."""
        try:
            if self.driver.poll() is None and "/session/" in getattr(self, "base", ""):
                self.ask("", None, "DELETE")
        except (OSError, WebDriverError):
            pass
        self.driver.terminate()
        self.driver.wait(SOON_S)
        self.driver.stdout.close()
        self.folder.cleanup()

    def ask(self, path: str, body: dict | None, method: str = "POST") -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=SOON_S * 2) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            value = json.load(error)["value"]
            raise WebDriverError(f"{value['error']}: {value['message'].splitlines()[0]}") from None

    def open(self, address: str) -> None:
        self.ask("/url", {"url": address})

    def run(self, script: str, *args: Any) -> Any:
        """What the script, the body of a function, returns."""
        return self.ask("/execute/sync", {"script": script, "args": args})

    def find(self, selector: str) -> str:
        return self.ask("/element", {"using": "css selector", "value": selector})[ELEMENT]

    def click(self, selector: str) -> None:
        self.ask(f"/element/{self.find(selector)}/click", {})

    def type(self, selector: str, text: str) -> None:
        self.ask(f"/element/{self.find(selector)}/value", {"text": text})

    def press(self, *keys: str) -> None:
        """Together, as `press("Shift", "A")`, into whatever has the focus."""
        values = [KEYS.get(key, key) for key in keys]
        actions = [{"type": "keyDown", "value": value} for value in values]
        actions += [{"type": "keyUp", "value": value} for value in reversed(values)]
        self.ask("/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def text(self, selector: str) -> str:
        """As somebody sees it; of several elements, one a line. What is hidden is not there."""
        script = "return [...document.querySelectorAll(arguments[0])].filter((e) => e.checkVisibility()).map((e) => e.innerText).join('\\n')"
        return self.run(script, selector)

    def log(self) -> list[str]:
        """What the browser has complained of since the last time."""
        return [entry["message"] for entry in self.ask("/se/log", {"type": "browser"}) if entry["level"] in ("SEVERE", "WARNING")]

    def emulate(self, command: str, **parameters: Any) -> Any:
        return self.ask("/goog/cdp/execute", {"cmd": f"Emulation.{command}", "params": parameters})

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.ask("/screenshot", None, "GET")))


def arguments(profile: Path) -> list[str]:
    names = [
        "headless=new", "disable-gpu", "disable-dev-shm-usage", "no-first-run", "no-default-browser-check", "disable-sync",
        "disable-background-networking", "disable-component-update", "disable-domain-reliability", "disable-extensions",
        "host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "window-size=1280,800", f"user-data-dir={profile}",
    ]
    # Its own sandbox refuses root.
    if os.geteuid() == 0:
        names.append("no-sandbox")
    return [f"--{name}" for name in names]


def until(condition: Callable[[], Any], what: str, seconds: float = SOON_S) -> Any:
    """Waits for something that is true, and gives it back."""
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"not in {seconds} s: {what() if callable(what) else what}")
        time.sleep(0.03)
