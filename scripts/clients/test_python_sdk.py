"""The official Python SDK against every way to run `codespace-mcp`: each tool, waiting and giving up, a terminal, resources
and their changes, errors, and what a client finds again when it comes back.

The SDK itself compares each structured result with the tool's output schema; that it does is a test too.
"""

import asyncio
import contextlib
import os
import re
import unittest
import warnings

import gateway
import mcp_types as types
from gateway import IN_PROCESS, INDEPENDENT, SOON, TOKEN, WORKER, WORKSPACE, GatewayCase
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

TOOLS = {
    "workspace_info", "exec_command", "read_process", "write_stdin", "close_stdin", "process_status", "list_processes",
    "process_resize", "signal_process", "terminate_process", "terminate_workspace",
}  # fmt: skip

# How a connection begins: with `initialize`, or (since the protocol of 2026-07-28, and first tried by this SDK) without.
LEGACY, MODERN = "legacy", "auto"

NOBODY = "proc-00000000-0000-4000-8000-000000000000"


def shell(script: str, **more) -> dict:
    return {"workspace_id": WORKSPACE, "command": ["sh", "-c", script], **more}


class Told:
    """Collects what the server tells without having been asked."""

    def __init__(self) -> None:
        self.updated: list[str] = []

    async def __call__(self, message) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            self.updated.append(str(message.params.uri))


class EveryWay:
    """The tests, for one transport, one Runner and one way to begin."""

    over: str
    runner: str
    mode = LEGACY

    def setUp(self) -> None:
        super().setUp()
        warnings.simplefilter("ignore")
        if self.over == "http":
            self.url = self.serve_http(self.runner)

    @contextlib.asynccontextmanager
    async def client(self, told: Told | None = None):
        """A client that has greeted."""
        async with contextlib.AsyncExitStack() as stack:
            if self.over == "http":
                http = create_mcp_http_client(headers={"Authorization": f"Bearer {TOKEN}"})
                transport = streamable_http_client(self.url, http_client=await stack.enter_async_context(http))
            else:
                command, *args = self.stdio_command(self.runner)
                server = StdioServerParameters(command=command, args=args, cwd=self.workspace)
                transport = stdio_client(server, errlog=stack.enter_context(open(os.devnull, "w")))
            client = Client(transport, mode=self.mode, message_handler=told, read_timeout_seconds=SOON)
            yield await stack.enter_async_context(client)

    async def done(self, client: Client, tool: str, arguments: dict, **more) -> dict:
        """Calls a tool that is to succeed. The SDK has compared the result with the schema."""
        result = await client.call_tool(tool, arguments, **more)
        self.assertFalse(result.is_error, f"{tool}: {result}")
        self.assertTrue(result.content[0].text.strip(), f"{tool} has words for a model")
        return result.structured_content

    async def read_until(self, client: Client, process_id: str, words: str, cursor: int = 0) -> int:
        """Reads on until the output has these words. Returns the cursor behind what was read."""
        seen = ""
        async with asyncio.timeout(SOON):
            while words not in seen:
                read = await self.done(
                    client, "read_process", {"process_id": process_id, "cursor": cursor, "wait_ms": 10_000}
                )
                seen += read["chunk"]
                cursor = read["cursor"]
                self.assertTrue(words in seen or not read["eof"], f"{seen!r} has no {words!r}")
        return cursor

    async def running(self, client: Client) -> list[dict]:
        return (await self.done(client, "list_processes", {"state": "running"}))["processes"]

    async def until_it_runs(self, client: Client, key: str) -> str:
        async with asyncio.timeout(SOON):
            while True:
                found = [p["process_id"] for p in await self.running(client) if p.get("process_key") == key]
                if found:
                    return found[0]

    async def test_every_tool_does_what_its_name_says(self) -> None:
        async with self.client() as client:
            self.assertEqual(client.server_info.name, "codespace-mcp")
            self.assertIn("exec_command", client.instructions)
            tools = (await client.list_tools()).tools
            self.assertEqual({tool.name for tool in tools}, TOOLS)
            for tool in tools:
                self.assertTrue(tool.title and tool.description and tool.output_schema and tool.annotations, tool.name)
                for name, schema in tool.input_schema["properties"].items():
                    self.assertTrue(schema.get("description"), f"{tool.name}: {name}")

            info = await self.done(client, "workspace_info", {})
            self.assertEqual(info["workspaces"][WORKSPACE]["profile"], "workspace-write")
            one = await self.done(client, "workspace_info", {"workspace_id": WORKSPACE})
            self.assertEqual(one["root"], str(self.workspace))

            ran = await client.call_tool("exec_command", shell("echo out; echo err >&2; exit 3"))
            status = ran.structured_content["status"]
            self.assertEqual((status["exit_code"], status["ended_by"], status["tree"]["confirmed"]), (3, "command", True))
            for words in ("exited with code 3", "out\n", "err\n"):
                self.assertIn(words, ran.content[0].text)

            cat = (await self.done(client, "exec_command", shell("cat", stdin="pipe", wait_ms=0)))["process_id"]
            self.assertEqual((await self.done(client, "write_stdin", {"process_id": cat, "data": "line\n"}))["written"], 5)
            await self.read_until(client, cat, "line\n")
            self.assertEqual(await self.done(client, "close_stdin", {"process_id": cat}), {})
            status = await self.done(client, "process_status", {"process_id": cat, "wait_ms": 10_000})
            self.assertEqual(status["exit_code"], 0)

            loop = "trap 'echo usr' USR1; echo ready; while :; do sleep 0.1; done"
            loop = (await self.done(client, "exec_command", shell(loop, wait_ms=0)))["process_id"]
            cursor = await self.read_until(client, loop, "ready\n")
            await self.done(client, "signal_process", {"process_id": loop, "signal": "USR1"})
            await self.read_until(client, loop, "usr\n", cursor)
            self.assertEqual([p["process_id"] for p in await self.running(client)], [loop])
            ended = await self.done(client, "terminate_process", {"process_id": loop})
            self.assertEqual((ended["ended_by"], ended["tree"]["confirmed"]), ("terminate", True))

            for _ in range(2):
                await self.done(client, "exec_command", shell("setsid sleep 1000 & exec sleep 1000", wait_ms=0))
            stopped = await self.done(client, "terminate_workspace", {"workspace_id": WORKSPACE})
            self.assertEqual((stopped["ended"], len(stopped["processes"])), (2, 2))
            self.assertEqual(await self.running(client), [])

    async def test_a_terminal_is_written_to_resized_interrupted_and_closed(self) -> None:
        async with self.client() as client:
            bash = {
                "workspace_id": WORKSPACE, "command": ["bash", "--norc", "--noprofile", "-i"], "tty": True, "rows": 30,
                "cols": 90, "wait_ms": 0, "env": {"TERM": "dumb"},
            }  # fmt: skip
            shown = (await self.done(client, "exec_command", bash))["process_id"]

            async def write(data: str) -> None:
                await self.done(client, "write_stdin", {"process_id": shown, "data": data})

            await write("stty size\n")
            cursor = await self.read_until(client, shown, "30 90")
            size = {"rows": 40, "cols": 100}
            self.assertEqual(await self.done(client, "process_resize", {"process_id": shown, **size}), size)
            # Only once it says so itself is it certain that the terminal's signals go to it. What is typed is echoed.
            await write("sh -c 'stty size; echo rea\"\"dy; exec sleep 1000'\n")
            cursor = await self.read_until(client, shown, "40 100\r\nready", cursor)
            await write("\u0003")
            await write("echo code $?\n")
            await self.read_until(client, shown, "code 130", cursor)
            await self.done(client, "close_stdin", {"process_id": shown})
            status = await self.done(client, "process_status", {"process_id": shown, "wait_ms": 10_000})
            self.assertEqual((status["state"], status["termination"], status["tty"]), ("exited", "exited", True))

    async def test_a_long_output_is_read_whole_by_cursor(self) -> None:
        whole = "".join(f"{number}\n" for number in range(1, 100_001))
        async with self.client() as client:
            ran = await client.call_tool("exec_command", shell("seq 1 100000"))
            self.assertIn("are left out here: read_process with cursor", ran.content[0].text)
            process_id, cursor, read = ran.structured_content["process_id"], 0, ""
            async with asyncio.timeout(SOON):
                while True:
                    reply = await self.done(client, "read_process", {"process_id": process_id, "cursor": cursor})
                    read += reply["chunk"]
                    cursor = reply["cursor"]
                    if reply["eof"]:
                        break
            self.assertEqual((len(read), read == whole), (len(whole), True))

    async def test_a_waiting_client_is_told_of_progress(self) -> None:
        async with self.client() as client:
            told: list[str] = []

            async def progress(_step: float, _total: float | None, message: str | None) -> None:
                told.append(message or "")
                if len(told) == 1:
                    await self.done(client, "terminate_process", {"workspace_id": WORKSPACE, "process_key": "slow"})

            slow = shell("exec sleep 1000", wait_ms=60_000, process_key="slow")
            ended = await self.done(client, "exec_command", slow, progress_callback=progress)
            self.assertEqual(ended["status"]["ended_by"], "terminate")
            self.assertTrue(told and ended["process_id"] in told[0], told)

    async def test_a_cancelled_call_ends_no_process(self) -> None:
        async with self.client() as client:
            waits = shell("exec sleep 1000", wait_ms=600_000, process_key="kept")
            call = asyncio.create_task(client.call_tool("exec_command", waits))
            process_id = await self.until_it_runs(client, "kept")
            call.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await call
            # A read waits for more than the cancelling takes, and the process is still there.
            read = await self.done(client, "read_process", {"process_id": process_id, "wait_ms": 500})
            self.assertEqual(read["state"], "running")
            again = await self.done(client, "exec_command", {**waits, "wait_ms": 0})
            self.assertEqual(again["process_id"], process_id, "a retry finds it")
            ended = await self.done(client, "terminate_process", {"process_id": process_id})
            self.assertTrue(ended["tree"]["confirmed"])

    async def test_resources_are_listed_read_and_followed(self) -> None:
        told = Told()
        async with self.client(told) as client:
            talks = shell("echo first; read line; echo \"got $line\"", stdin="pipe", wait_ms=0)
            process_id = (await self.done(client, "exec_command", talks))["process_id"]
            await self.read_until(client, process_id, "first\n")
            listed = [str(resource.uri) for resource in (await client.list_resources()).resources]
            uri = f"process://{process_id}/output"
            self.assertEqual(listed, [uri])
            templates = (await client.list_resource_templates()).resource_templates
            self.assertEqual(len(templates), 4)
            contents = (await client.read_resource(uri)).contents[0]
            self.assertEqual((contents.text, contents.mime_type), ("first\n", "text/plain"))
            write = {"process_id": process_id, "data": "line\n"}
            async with asyncio.timeout(SOON):
                if self.mode == LEGACY:
                    await client.subscribe_resource(uri)
                    await self.done(client, "write_stdin", write)
                    while uri not in told.updated:
                        await self.done(client, "list_processes", {})
                    await client.unsubscribe_resource(uri)
                else:
                    async with client.listen(resource_subscriptions=[uri]) as changes:
                        await self.done(client, "write_stdin", write)
                        self.assertEqual(str((await anext(aiter(changes))).uri), uri)
            await self.done(client, "process_status", {"process_id": process_id, "wait_ms": 10_000})
            # Nothing that has changed comes from a cache.
            self.assertEqual((await client.read_resource(uri)).contents[0].text, "first\ngot line\n")
            status = (await client.read_resource(f"process://{process_id}/status")).contents[0]
            self.assertEqual(status.mime_type, "application/json")
            self.assertIn('"exit_code":0', status.text)
            for uri in ("process://nobody/output", f"process://{NOBODY}/output"):
                with self.assertRaises(MCPError) as missing:
                    await client.read_resource(uri)
                self.assertEqual(missing.exception.error.data["uri"], uri)

    async def test_whatever_is_wrong_is_said_with_code_message_and_hint(self) -> None:
        cases = [
            ("exec_command", {"workspace_id": "nobody", "command": ["true"]}, "WORKSPACE_NOT_FOUND", True),
            ("exec_command", {"workspace_id": WORKSPACE}, "INVALID_COMMAND", True),
            ("exec_command", shell("true", shell=True), "INVALID_COMMAND", True),
            ("exec_command", {"workspace_id": WORKSPACE, "command": ["no-such-program"]}, "PROCESS_SPAWN_FAILED", False),
            ("exec_command", shell("true", cwd="../.."), "PATH_ESCAPE", False),
            ("read_process", {"process_id": NOBODY}, "PROCESS_NOT_FOUND", True),
            ("terminate_process", {}, "INVALID_COMMAND", True),
        ]
        async with self.client() as client:
            for tool, arguments, code, hinted in cases:
                result = await client.call_tool(tool, arguments)
                error = result.structured_content
                self.assertEqual((result.is_error, error["code"]), (True, code), result)
                self.assertTrue(error["message"])
                self.assertTrue(error.get("hint") or not hinted, result)
                self.assertTrue(result.content[0].text.startswith(code))
                self.assertIn(error["message"], result.content[0].text)
                # Some clients compare refusals with the schema too.
                await client.session.validate_tool_result(tool, result)
            with self.assertRaisesRegex(MCPError, "no tool"):
                await client.call_tool("stop", {})
            self.assertEqual(await self.running(client), [], "nothing that was refused runs")

    async def test_the_sdk_compares_results_with_the_schema(self) -> None:
        async with self.client() as client:
            ran = await client.call_tool("exec_command", shell("true"))
            await client.session.validate_tool_result("exec_command", ran)
            ran.structured_content["status"]["exit_code"] = "zero"
            with self.assertRaisesRegex(RuntimeError, "Invalid structured content"):
                await client.session.validate_tool_result("exec_command", ran)

    async def test_a_client_that_comes_back_finds_what_it_left(self) -> None:
        stays = self.over == "http" or self.runner == INDEPENDENT
        async with self.client() as client:
            started = await self.done(client, "exec_command", shell("echo first; exec sleep 1000", wait_ms=0))
            await self.read_until(client, started["process_id"], "first\n")
        async with self.client() as client:
            if not stays:
                self.assertEqual((await self.done(client, "list_processes", {}))["processes"], [])
                return
            read = await self.done(client, "read_process", {"process_id": started["process_id"]})
            self.assertEqual((read["chunk"], read["state"]), ("first\n", "running"))
            ended = await self.done(client, "terminate_process", {"process_id": started["process_id"]})
            self.assertTrue(ended["tree"]["confirmed"])

    async def test_a_process_can_be_tied_to_its_session(self) -> None:
        tied = shell("exec sleep 1000", wait_ms=0, lifetime="connection", process_key="tied")
        async with self.client() as client:
            result = await client.call_tool("exec_command", tied)
            if self.over == "http" and self.mode == MODERN:
                # Its requests have no session.
                self.assertEqual((result.is_error, result.structured_content["code"]), (True, "INVALID_COMMAND"))
                return
            self.assertEqual(result.structured_content["status"]["state"], "running")
        if self.over == "stdio" and self.runner != INDEPENDENT:
            return  # That nothing is left is looked at after each test.
        async with self.client() as client:
            ask = {"process_id": result.structured_content["process_id"], "wait_ms": 10_000}
            ended = await self.done(client, "process_status", ask)
            self.assertEqual((ended["ended_by"], ended["tree"]["confirmed"]), ("connection", True))


class Breaking:
    """A way to the server whose connections can be broken."""

    def __init__(self, url: str) -> None:
        self.port = int(url.split(":")[2].split("/")[0])
        self.open: set[asyncio.StreamWriter] = set()
        self.taken_up = asyncio.Event()

    async def __aenter__(self) -> "Breaking":
        self.server = await asyncio.start_server(self.pass_on, "127.0.0.1", 0)
        self.url = "http://127.0.0.1:{}/mcp".format(self.server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, *_: object) -> None:
        self.server.close()
        self.break_all()

    def break_all(self) -> int:
        broken = len(self.open)
        for writer in self.open:
            writer.transport.abort()
        return broken

    async def pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, questions = await asyncio.open_connection("127.0.0.1", self.port)
        both = {writer, questions}
        self.open |= both
        # Cancelled at the end of the test.
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await asyncio.gather(self.copy(reader, questions), self.copy(answers, writer))
        self.open -= both

    async def copy(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while data := await source.read(65536):
            # The stream of a call, by the last event that came of it.
            if re.search(rb"last-event-id: \d+/\d+", data.lower()):
                self.taken_up.set()
            target.write(data)
            await target.drain()
        target.close()


class Broken(GatewayCase):
    async def test_a_call_whose_connection_breaks_is_taken_up_again(self) -> None:
        url = self.serve_http(IN_PROCESS)
        async with Breaking(url) as way, contextlib.AsyncExitStack() as stack:
            headers = {"Authorization": f"Bearer {TOKEN}", "Host": url.split("/")[2]}
            http = await stack.enter_async_context(create_mcp_http_client(headers=headers))
            transport = streamable_http_client(way.url, http_client=http)
            client = await stack.enter_async_context(Client(transport, mode=LEGACY, read_timeout_seconds=SOON))
            waits = shell("read line; echo \"got $line\"", stdin="pipe", wait_ms=60_000)
            call = asyncio.create_task(client.call_tool("exec_command", waits))
            running = []
            async with asyncio.timeout(SOON):
                while not running:
                    listed = await client.call_tool("list_processes", {"state": "running"})
                    running = listed.structured_content["processes"]
                self.assertGreater(way.break_all(), 0)
                await way.taken_up.wait()
            write = {"process_id": running[0]["process_id"], "data": "line\n"}
            await client.call_tool("write_stdin", write)
            self.assertEqual((await call).structured_content["output"]["chunk"], "got line\n")


class Pings:
    async def test_a_ping_is_answered(self) -> None:
        async with self.client() as client:
            await client.send_ping()


class StdioInProcess(Pings, EveryWay, GatewayCase):
    over, runner = "stdio", IN_PROCESS


class StdioWorker(EveryWay, GatewayCase):
    over, runner = "stdio", WORKER


class StdioIndependent(EveryWay, GatewayCase):
    over, runner = "stdio", INDEPENDENT


class HttpInProcess(Pings, EveryWay, GatewayCase):
    over, runner = "http", IN_PROCESS


class HttpWorker(EveryWay, GatewayCase):
    over, runner = "http", WORKER


class HttpIndependent(EveryWay, GatewayCase):
    over, runner = "http", INDEPENDENT


class ModernStdio(EveryWay, GatewayCase):
    over, runner, mode = "stdio", INDEPENDENT, MODERN


class ModernHttp(EveryWay, GatewayCase):
    over, runner, mode = "http", IN_PROCESS, MODERN

    async def test_it_is_the_protocol_of_2026_07_28(self) -> None:
        async with self.client() as client:
            self.assertEqual(client.protocol_version, "2026-07-28")


class Refused(GatewayCase):
    async def test_without_the_token_there_is_no_connection(self) -> None:
        url = self.serve_http(IN_PROCESS)
        for mode in (LEGACY, MODERN):
            with self.subTest(mode):
                with self.assertRaises(BaseException) as refused:
                    async with Client(streamable_http_client(url), mode=mode, read_timeout_seconds=SOON):
                        pass
                self.assertNotIsInstance(refused.exception, TimeoutError)


if __name__ == "__main__":
    unittest.main()
