"""The official Inspector's command line against `codespace-mcp`: one connection for each call, so that a process lives on
between them in a server over HTTP or in an independent Runner. It compares structured results with the output schemas,
those of failed calls too, and knows which schemas some client or model API refuses.
"""

import json
import os
import subprocess
import unittest

import gateway
from gateway import IN_PROCESS, INDEPENDENT, TOKEN, WORKER, WORKSPACE, GatewayCase

CLI = gateway.CLIENTS / "node_modules/@modelcontextprotocol/inspector/clients/cli/build/index.js"
TOOL_ERROR = 5


class Inspector(GatewayCase):
    def inspect(self, target: list[str], *options: str, code: int = 0) -> tuple[dict, str]:
        """Runs it once. Returns its result and what it said on stderr."""
        ran = subprocess.run(
            [gateway.node(), CLI, "--format", "json", *options, *target],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=gateway.SOON,
            cwd=self.workspace,
            # It keeps what it knows of servers in the home directory.
            env={**os.environ, "HOME": str(self.home)},
        )
        self.assertEqual(ran.returncode, code, f"{options}: {ran.stdout} {ran.stderr}")
        return json.loads(ran.stdout)["result"], ran.stderr

    def call(self, target: list[str], tool: str, arguments: dict, code: int = 0) -> dict:
        options = ("--method", "tools/call", "--tool-name", tool, "--tool-args-json", json.dumps(arguments))
        result, _ = self.inspect(target, *options, code=code)
        self.assertEqual(result.get("isError", False), code == TOOL_ERROR, result)
        self.assertTrue(result["content"][0]["text"].strip(), f"{tool} has words for a model")
        return result

    def done(self, target: list[str], tool: str, arguments: dict) -> dict:
        return self.call(target, tool, arguments)["structuredContent"]

    def stdio(self, runner: str) -> list[str]:
        # It has a --config of its own.
        return ["--", *self.stdio_command(runner)]

    def http(self, runner: str) -> list[str]:
        url = self.serve_http(runner)
        return ["--transport", "http", "--server-url", url, "--header", f"Authorization: Bearer {TOKEN}"]

    def test_no_schema_has_what_a_client_or_model_api_may_refuse(self) -> None:
        strict = ("--method", "tools/list", "--strict")
        for era in ("legacy", "modern"):
            result, complaints = self.inspect(self.stdio(IN_PROCESS), "--protocol-era", era, *strict)
            self.assertEqual((len(result["tools"]), complaints), (11, ""))

    def test_every_tool_is_called_over_http(self) -> None:
        self.every_tool(self.http(IN_PROCESS))

    def test_every_tool_is_called_over_stdio_in_front_of_an_independent_runner(self) -> None:
        self.every_tool(self.stdio(INDEPENDENT))

    def every_tool(self, target: list[str]) -> None:
        self.assertEqual(self.inspect(target, "--method", "initialize")[0]["serverInfo"]["name"], "codespace-mcp")
        info = self.done(target, "workspace_info", {})
        self.assertEqual(list(info["workspaces"]), [WORKSPACE])

        def start(script: str, **more) -> str:
            arguments = {"workspace_id": WORKSPACE, "command": ["sh", "-c", script], "wait_ms": 0, **more}
            return self.done(target, "exec_command", arguments)["process_id"]

        shown = start("read line; stty size; echo \"got $line\"; exec sleep 1000", tty=True)
        self.done(target, "process_resize", {"process_id": shown, "rows": 40, "cols": 100})
        self.assertEqual(self.done(target, "write_stdin", {"process_id": shown, "data": "line\n"})["written"], 5)
        # Its echo comes first, in a piece of its own perhaps.
        read, chunk = {"cursor": 0}, ""
        while "got line" not in chunk:
            ask = {"process_id": shown, "cursor": read["cursor"], "wait_ms": 10_000}
            read = self.done(target, "read_process", ask)
            chunk += read["chunk"]
            self.assertFalse(read["eof"], chunk)
        self.assertIn("40 100", chunk)
        self.done(target, "signal_process", {"process_id": shown, "signal": "TERM"})
        status = self.done(target, "process_status", {"process_id": shown, "wait_ms": 10_000})
        self.assertEqual(status["signal"]["name"], "TERM")

        cat = start("cat", stdin="pipe")
        self.done(target, "close_stdin", {"process_id": cat})
        self.assertEqual(self.done(target, "process_status", {"process_id": cat, "wait_ms": 10_000})["exit_code"], 0)

        endless = start("setsid sleep 1000 & exec sleep 1000")
        listed = self.done(target, "list_processes", {"state": "running"})["processes"]
        self.assertEqual([process["process_id"] for process in listed], [endless])
        ended = self.done(target, "terminate_process", {"process_id": endless})
        self.assertEqual((ended["ended_by"], ended["tree"]["confirmed"]), ("terminate", True))
        start("exec sleep 1000")
        self.assertEqual(self.done(target, "terminate_workspace", {"workspace_id": WORKSPACE})["ended"], 1)

        resources = self.inspect(target, "--method", "resources/list")[0]["resources"]
        self.assertIn(f"process://{shown}/output", [resource["uri"] for resource in resources])
        uri = f"process://{shown}/status"
        contents = self.inspect(target, "--method", "resources/read", "--uri", uri)[0]["contents"]
        self.assertEqual(json.loads(contents[0]["text"])["process_id"], shown)

        refused = self.call(target, "read_process", {"process_id": shown, "cursor": 1_000_000}, code=TOOL_ERROR)
        self.assertEqual(refused["structuredContent"]["code"], "CURSOR_OUT_OF_RANGE")
        self.assertTrue(refused["content"][0]["text"].startswith("CURSOR_OUT_OF_RANGE"))

    def test_a_command_runs_whichever_way_the_connection_begins(self) -> None:
        command = {"workspace_id": WORKSPACE, "command": ["sh", "-c", "echo hi; exit 3"]}
        for target in (self.http(WORKER), self.stdio(WORKER)):
            for era in ("legacy", "modern"):
                ran = self.done(["--protocol-era", era, *target], "exec_command", command)
                self.assertEqual((ran["status"]["exit_code"], ran["output"]["chunk"]), (3, "hi\n"))

    def test_without_the_right_token_there_is_no_connection(self) -> None:
        url = self.serve_http(IN_PROCESS)
        for header in ([], ["--header", "Authorization: Bearer wrong"]):
            command = [gateway.node(), CLI, "--format", "json", "--stored-auth-only", "--method", "tools/list"]
            ran = subprocess.run(
                [*command, "--transport", "http", "--server-url", url, *header],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=gateway.SOON,
                env={**os.environ, "HOME": str(self.home)},
            )
            self.assertNotEqual(ran.returncode, 0, ran.stdout)
            self.assertNotIn("exec_command", ran.stdout)


if __name__ == "__main__":
    unittest.main()
