"""The live page of `codespace-mcp` in a real browser, in front of a real server: what whoever watches an agent sees and does.

Needs what `scripts/browser/install` installs, and the built binaries.
"""

import json
import signal
import subprocess
import unittest
from pathlib import Path

import server
import webdriver
from webdriver import Browser, until

HERE = Path(__file__).resolve().parent
HOSTILE = r"""printf '<script>window.broken=1</script><img src=x onerror="window.broken=1">\n'
printf '\e[31mred\e[0m \e[1;38;5;46mgreen\e[0m \e[2J\e[1A\e]0;taken\a\e]8;;http://evil.example\e\\link\e]8;;\e\\\n'
printf 'a\u202eb\u200bc\bd\0e\e[8mconcealed\e[0m\n10%%\r99%%\n'"""
# Also of what is scrolled out of sight, which a browser does not lay out.
OUTPUT = "return [...document.querySelectorAll('#output .line, #output .note')].map((e) => e.textContent).join('\\n')"


class LivePage(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        install = subprocess.run(["bash", HERE / "install"], stdout=subprocess.PIPE, text=True, check=True, timeout=900)
        cls.browser = Browser(*install.stdout.split())
        cls.addClassCleanup(cls.browser.close)
        cls.server = server.Server()
        cls.addClassCleanup(cls.server.close)

    def setUp(self) -> None:
        for workspace in ("demo", "site"):
            self.server.call("terminate_workspace", workspace_id=workspace)
        self.browser.open("about:blank")
        self.browser.log()
        # What the browser may complain of.
        self.expected = ()

    def tearDown(self) -> None:
        complaints = [line for line in self.browser.log() if not any(part in line for part in self.expected)]
        self.assertEqual(complaints, [])

    def watch(self, process: str | None = None) -> None:
        """Opens the page with the token, and chooses a process."""
        self.browser.open(f"{self.server.address}#token={server.TOKEN}")
        self.sees("#connection", "watching")
        if process:
            until(lambda: self.row(process), f"{process} in the list")
            self.browser.click(f"[data-id='{process}']")

    def row(self, process: str) -> str:
        return self.browser.text(f"[data-id='{process}']")

    def sees(self, selector: str, *texts: str) -> str:
        def seen() -> str | None:
            text = self.browser.text(selector)
            return text if text and all(part in text for part in texts) else None

        return until(seen, lambda: f"{texts} in {selector}: {self.browser.text(selector)[-1000:]!r}")

    def reads(self, *texts: str) -> str:
        """The output, once it has all of these."""

        def read() -> str | None:
            text = self.browser.run(OUTPUT)
            return text if all(part in text for part in texts) else None

        return until(read, lambda: f"{texts} in the output: {self.browser.run(OUTPUT)[-1000:]!r}")

    def test_the_token_leaves_the_address_and_is_kept_nowhere(self) -> None:
        self.watch()
        kept = "return [location.href, document.documentElement.outerHTML, JSON.stringify({...localStorage, ...sessionStorage}), document.cookie, performance.getEntries().map((e) => e.name).join()]"
        address, page, *others = self.browser.run(kept)
        self.assertEqual(address, self.server.address)
        self.assertNotIn(server.TOKEN, page)
        self.assertEqual(others[:2], ["{}", ""])
        self.assertNotIn(server.TOKEN.split("/")[0], others[2].replace(f"{self.server.address}#token={server.TOKEN}", ""))

    def test_workspaces_and_processes_are_listed(self) -> None:
        failed = self.server.shell("exit 3")
        left = self.server.shell("sleep 1000 & exit 0")
        running = self.server.start("sleep", "1000", workspace="site")
        self.watch()
        self.sees("#workspaces", "demo", "site", "/demo", "writable · sandbox bubblewrap · network restricted", "1 running", "nothing running")
        until(lambda: "exited with 3, nothing left" in self.row(failed), "its end")
        until(lambda: "nothing left: 1 process that it left running was ended" in self.row(left), "its leftover")
        self.assertIn("sleep 1000\nrunning", self.row(running))
        self.assertEqual(self.browser.run("return document.title"), "1 running – CodeSpace Runner")
        self.assertIn(self.browser.run("return document.activeElement.id"), ("", "token"))

    def test_output_comes_as_it_is_written_and_in_colour(self) -> None:
        process = self.server.shell(r"""while read -r line; do printf '\e[32m%s\e[0m seen\n' "$line"; done; exit 4""", stdin="pipe")
        self.watch(process)
        for word in ("first", "second"):
            self.server.call("write_stdin", process_id=process, data=f"{word}\n")
            self.sees("#output .f2", word)
            self.sees("#output", f"{word} seen")
        self.server.call("close_stdin", process_id=process)
        self.sees("#process .how", "exited with 4", "nothing left")
        # The live region tells whoever does not see it.
        told = "return document.querySelector('#told').textContent"
        self.assertIn("exited with 4, nothing left", until(lambda: self.browser.run(told), "the end to be told"))

    def test_hostile_output_is_text_and_nothing_else(self) -> None:
        process = self.server.shell(HOSTILE)
        self.watch(process)
        text = self.sees("#output", "99%")
        for part in ('<script>window.broken=1</script><img src=x onerror="window.broken=1">', "red green link", r"a\u{202e}b\u{200b}c\u{8}d\u{0}econcealed"):
            self.assertIn(part, text)
        self.assertNotIn("10%", text)
        self.assertEqual(self.browser.text("#output .overwritten"), "99%")
        self.assertEqual(self.browser.text("#output .f1") + self.browser.text("#output .f2.t-bold, #output .f10.t-bold"), "redgreen")
        self.assertEqual(self.browser.text("#output .mark").split(), [r"\u{202e}", r"\u{200b}", r"\u{8}", r"\u{0}"])
        self.sees("#facts", "5 terminal sequences")
        state = "return [window.broken ?? 0, document.title, document.querySelectorAll('#output :not(div, span)').length, document.querySelectorAll('[style], style').length]"
        self.assertEqual(self.browser.run(state), [0, "CodeSpace Runner", 0, 0])

    def test_a_hostile_command_is_text_too(self) -> None:
        process = self.server.start("echo", "<b>x</b>", "\x1b[2J\u202e\nit's")
        self.watch(process)
        words = r"echo '<b>x</b>' '\u{1b}[2J\u{202e}\nit'\''s'"
        self.assertIn(words, self.row(process))
        self.assertEqual(self.sees("#command", "echo"), words.replace(r"\n", "\\n\n"))

    def test_one_process_is_stopped_by_its_button(self) -> None:
        process, other = self.server.start("sleep", "1000"), self.server.start("sleep", "1000")
        self.watch(process)
        self.sees("#process .how", "running")
        self.browser.click("#end-process")
        self.sees("#process .how", "ended by terminate", "nothing left")
        until(lambda: "ended by terminate, nothing left" in self.row(process), "its end in the list")
        self.assertEqual(self.server.status(process)["ended_by"], "terminate")
        self.assertEqual(self.server.status(other)["state"], "running")
        self.assertFalse(self.browser.run("return document.querySelector('#notices').childElementCount"))

    def test_a_workspace_is_stopped_after_a_question(self) -> None:
        own, other = self.server.start("sleep", "1000"), self.server.start("sleep", "1000", workspace="site")
        self.watch(own)
        button = "[aria-label='Stop everything in the workspace demo']"
        self.browser.click(button)
        self.sees("#confirm", "Stop everything in the workspace demo?", "1 process ends now")
        self.browser.click("#confirm-no")
        until(lambda: not self.browser.text("#confirm"), "the question to be gone")
        self.assertEqual(self.server.status(own)["state"], "running")
        self.browser.click(button)
        self.sees("#confirm", "demo")
        self.browser.click("#confirm-yes")
        self.sees("#notices", "demo: 1 process ended, nothing left.")
        self.assertEqual(self.server.status(own)["ended_by"], "workspace")
        self.assertEqual(self.server.status(other)["state"], "running")

    def test_everything_is_stopped_with_the_keyboard_alone(self) -> None:
        processes = [self.server.start("sleep", "1000"), self.server.shell("sleep 1000 & wait", workspace="site")]
        self.watch()
        until(lambda: all(self.row(process) for process in processes), "both in the list")
        self.browser.press("?")
        self.sees("#help", "stop everything, after a question")
        self.browser.press("Escape")
        until(lambda: not self.browser.text("#help"), "the help to be closed")
        self.browser.press("l")
        self.browser.press("End")
        self.browser.press("Enter")
        until(lambda: self.browser.text("[role=option][aria-selected=true]"), "one to be chosen")
        self.browser.press("Home")
        self.browser.press("Down")
        self.browser.press("Up")
        self.browser.press("Enter")
        self.sees("#command", "sleep 1000")
        self.assertEqual(self.browser.run("return document.activeElement.ariaSelected"), "true")
        self.browser.press("s")
        self.assertEqual(self.browser.run("return document.activeElement.id"), "end-process")
        self.browser.press("Shift", "A")
        self.sees("#confirm", "2 processes end now")
        self.assertEqual(self.browser.run("return document.activeElement.id"), "confirm-no")
        self.browser.press("Tab")
        self.browser.press("Enter")
        self.sees("#notices", "2 processes ended, nothing left.")
        for process in processes:
            self.assertEqual(self.server.status(process)["ended_by"], "workspace")

    def test_a_wrong_token_is_told_and_the_right_one_typed_is_taken(self) -> None:
        self.expected = ("401 (Unauthorized)",)
        self.browser.open(self.server.address)
        self.sees("#token-form", "--token-file")
        self.assertEqual(self.browser.text("#watch"), "")
        for wrong, words in (("not-the-token-0123456789", "did not take the token"), ("schlüssel", "only visible ASCII")):
            self.browser.type("#token", wrong)
            self.browser.press("Enter")
            self.sees("#token-form", words)
        self.browser.type("#token", server.TOKEN)
        self.browser.press("Enter")
        self.sees("#workspaces", "demo")
        self.assertEqual(self.browser.run("return [document.querySelector('#token').value, location.href]"), ["", self.server.address])

    def test_a_server_without_a_token_is_watched_without(self) -> None:
        with_none = server.Server(token=False)
        self.addCleanup(with_none.close)
        self.browser.open(with_none.address)
        self.sees("#workspaces", "demo", "site")

    def test_a_server_that_is_gone_is_told_and_found_again(self) -> None:
        self.expected = ("ERR_CONNECTION",)
        first = server.Server()
        self.addCleanup(first.close)
        process = first.shell("echo here; sleep 1000")
        self.browser.open(f"{first.address}#token={server.TOKEN}")
        self.sees("#workspaces", "sleep 1000")
        self.browser.click(f"[data-id='{process}']")
        self.sees("#output", "here")
        first.end(signal.SIGKILL)
        self.sees("#trouble", "The server does not answer.", "Is codespace-mcp still running?", "Trying again in")
        self.assertEqual(self.browser.text("#connection"), "not connected")
        self.sees("#output", "here")
        second = server.Server(port=first.port)
        self.addCleanup(second.close)
        second.start("sleep", "999")
        self.browser.click("#try-now")
        self.sees("#workspaces", "sleep 999")
        self.sees("#output", "here", "the server no longer keeps this process")
        self.assertEqual(self.browser.text("#trouble"), "")

    def test_lost_output_is_told(self) -> None:
        process = self.server.shell("head -c 300000 /dev/zero | tr '\\0' x; echo; echo end", output_bytes=65536)
        until(lambda: self.server.status(process)["state"] == "exited", "its end")
        self.watch(process)
        self.sees("#output .note", "KiB lost: the Runner no longer keeps them")
        self.assertTrue(self.reads("\nend").rstrip().endswith("x\nend"))

    def test_what_the_page_keeps_is_bounded(self) -> None:
        process = self.server.shell("seq -f %0100.0f 1 40000; echo end", output_bytes=8 << 20)
        until(lambda: self.server.status(process)["state"] == "exited", "its end")
        self.watch(process)
        self.reads("040000\nend", "passed over: only the latest output is shown here")
        many = self.server.shell("for i in $(seq 30); do seq 1 1000; sleep 0.02; done; echo end")
        until(lambda: self.row(many), "it in the list")
        self.browser.click(f"[data-id='{many}']")
        self.reads("older lines are no longer shown here", "1000\nend")
        self.assertLess(self.browser.run("return document.querySelectorAll('#output .line').length"), 10_300)
        self.assertEqual(self.browser.run("const o = document.querySelector('#output'); return Math.round(o.scrollHeight - o.scrollTop - o.clientHeight)"), 0)

    def test_a_colour_for_each_character_does_not_fill_the_page(self) -> None:
        # 2 MB of output, and so slow that nothing is passed over.
        colours = r"""line=$(for i in $(seq 2000); do printf '\e[3%dmx' $((i % 7)); done)
        for i in $(seq 40); do for j in 1 2 3 4; do printf %s "$line"; done; sleep 0.1; done; printf '\nend\n'"""
        process = self.server.shell(colours, output_bytes=8 << 20)
        self.watch(process)
        self.reads("older lines are no longer shown here", "\nend")
        self.assertLess(self.browser.run("return document.querySelectorAll('#output *').length"), 60_000)

    def test_whoever_scrolls_up_stays_there(self) -> None:
        process = self.server.shell("seq 500; while read -r line; do seq 100; done", stdin="pipe")
        self.watch(process)
        self.reads("\n500\n")
        pressed = "return document.querySelector('#follow').ariaPressed"
        self.browser.press("f")
        self.browser.run("document.querySelector('#output').scrollTop = 0")
        until(lambda: self.browser.run(pressed) == "false", "it to stay")
        self.server.call("write_stdin", process_id=process, data="more\n")
        until(lambda: len(self.browser.run(OUTPUT).split()) == 600, "more output")
        self.assertEqual(self.browser.run("return document.querySelector('#output').scrollTop"), 0)
        self.browser.press("f")
        self.assertEqual(self.browser.run(pressed), "true")
        until(lambda: self.browser.run("return document.querySelector('#output').scrollTop") > 0, "the end")

    def test_watching_does_not_let_a_waiting_command_on(self) -> None:
        process = self.server.shell("seq 1 200000; echo end", output_bytes=65536, on_full="wait")
        until(lambda: self.server.status(process)["output_total"] > 60_000, "its output")
        self.watch(process)
        self.reads("5000\n")
        looks = "return performance.getEntriesByType('resource').filter((e) => e.name.endsWith('/mcp')).length"
        before, total = self.browser.run(looks), self.server.status(process)["output_total"]
        until(lambda: self.browser.run(looks) >= before + 3, "some looks more")
        now = self.server.status(process)
        self.assertEqual((now["state"], now["output_total"]), ("running", total))
        self.assertLess(total, 300_000)

    def test_nothing_is_asked_while_nobody_can_see_the_page(self) -> None:
        process = self.server.shell("while :; do echo tick; sleep 0.1; done")
        self.watch(process)
        self.sees("#output", "tick")
        hide = "Object.defineProperty(document, 'visibilityState', {value: arguments[0], configurable: true}); document.dispatchEvent(new Event('visibilitychange'))"
        looks = "return performance.getEntriesByType('resource').filter((e) => e.name.endsWith('/mcp')).length"
        self.browser.run(hide, "hidden")
        # What was under way may still be answered; then, while the process writes on, nothing more is asked.
        total = self.server.status(process)["output_total"]
        until(lambda: self.server.status(process)["output_total"] > total + 50, "ten ticks")
        before, total = self.browser.run(looks), self.server.status(process)["output_total"]
        until(lambda: self.server.status(process)["output_total"] > total + 100, "twenty ticks")
        self.assertEqual(self.browser.run(looks), before)
        self.browser.run(hide, "visible")
        until(lambda: self.browser.run(looks) > before + 3, "looks again")

    def test_an_end_that_was_not_seen_is_a_clear_warning(self) -> None:
        self.watch()
        status = {
            "process_id": "proc-1", "workspace_id": "demo", "command": ["make"], "state": "exited", "started_at": "2026-01-02T03:04:05Z",
            "ended_by": "helper_lost", "termination": "unknown", "output_total": 0, "sandbox": "bubblewrap",
            "tree": {"confirmed": False, "leftovers": 0, "took_ms": 2000, "detail": "a\u202eb"},
        }
        shown = """const { Details } = await import(new URL("page/details.mjs", location.href));
            new Details({ end() {} }).show(JSON.parse(arguments[0]), { ending: false, unobeyed: 0, now: Date.now() });
            const tree = document.querySelector("#tree");
            return [tree.innerText, tree.className, getComputedStyle(tree).borderTopWidth, document.querySelector("#process").className];"""
        words = r"NOT CONFIRMED: it was not seen that nothing is left (a\u{202e}b)"
        self.assertEqual(self.browser.run(shown, json.dumps(status)), [words, "unconfirmed", "1px", "alarm"])

    def test_light_and_dark_follow_the_system_and_a_narrow_window_fits(self) -> None:
        self.watch(self.server.start("echo", "x" * 300))
        self.sees("#output", "xxx")
        grounds = []
        for scheme in ("light", "dark"):
            self.browser.emulate("setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            grounds.append(self.browser.run("return getComputedStyle(document.body).backgroundColor"))
        self.assertEqual(len(set(grounds)), 2, grounds)
        self.browser.emulate("setDeviceMetricsOverride", width=360, height=700, deviceScaleFactor=1, mobile=False)
        self.addCleanup(self.browser.emulate, "clearDeviceMetricsOverride")
        self.assertLessEqual(self.browser.run("return document.documentElement.scrollWidth"), 360)


if __name__ == "__main__":
    unittest.main()
