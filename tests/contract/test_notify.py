"""Promotions, rollbacks and alerts reach a real webhook and a real command, at least once, each with one key."""

import asyncio
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ringrift.cli.main import call
from ringrift.events.alert import Cleared, Raised
from ringrift.events.model import Promoted, RolledBack
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import SettingsError
from ringrift.kernel.settings import NotifySettings, Settings
from ringrift.kernel.value import changed
from ringrift.node import Node
from ringrift.store.open import open_store
from wait import wait_until

SECONDS_MAX = 20.0
RETRY = {"first_seconds": 0.05, "seconds_max": 0.1, "tries": 5}
PROMOTED = Promoted(variant="hex8_2p", model="ab" * 32, generation=3)
ROLLED_BACK = RolledBack(variant="hex8_2p", model="ab" * 32, to="cd" * 32, generation=2, reason="by hand")
SCRIPT = """
import json, sys
from pathlib import Path
folder = Path(sys.argv[1])
message = json.load(sys.stdin)
with (folder / "messages").open("a") as file:
    file.write(json.dumps(message) + chr(10))
if len((folder / "messages").read_text().splitlines()) < 3:
    sys.exit("not yet")
"""


class Webhook:
    """An HTTP server that fails *failures* times, and then takes every message."""

    def __init__(self, failures: int = 0) -> None:
        self.requests: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                hook.requests.append((self.path, dict(self.headers), body))
                self.send_response(503 if len(hook.requests) <= failures else 204)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Print nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/hook?token=1"

    def texts(self) -> list[str]:
        """The messages, each once."""
        return list(dict.fromkeys(body["text"] for _, _, body in self.requests))


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    """A webhook that is down for two requests."""
    hook = Webhook(failures=2)
    yield hook
    hook.server.shutdown()
    hook.server.server_close()


def settings(home: Path, **notify: object) -> Settings:
    """A node that sends to *notify* and repeats quickly."""
    quick = {"bus.redeliver_seconds": 0.05, "bus.poll_seconds": 0.05, "cluster.elect_seconds": 0.1}
    return Settings.local(home).overlaid(
        {**quick, "notify.retry": RETRY, **{f"notify.{k}": v for k, v in notify.items()}}
    )


def test_a_webhook_that_fails_twice_gets_the_message_with_one_key(tmp_path: Path, webhook: Webhook) -> None:
    """The message is repeated with the same Idempotency-Key until it is taken, then not again; others follow."""

    async def story() -> None:
        async with (
            asyncio.timeout(60.0),
            Node.open(settings(tmp_path, url=webhook.url), SystemClock(), Random(1)) as node,
        ):
            await wait_until(lambda: node.roles.holds("notify"), SECONDS_MAX)
            await wait_until(lambda: "notify_url" in node.router._handlers, SECONDS_MAX)
            await node.router.publish(PROMOTED)
            await wait_until(lambda: len(webhook.requests) >= 3, SECONDS_MAX)
            await node.router.publish_many([ROLLED_BACK, Raised(kind="mine", subject="x", detail="hot")])
            await wait_until(lambda: any("hot" in text for text in webhook.texts()), SECONDS_MAX)
            await node.router.publish(Cleared(kind="mine", subject="x"))
            await wait_until(lambda: any("over" in text for text in webhook.texts()), SECONDS_MAX)

    asyncio.run(story())
    path, headers, body = webhook.requests[0]
    assert path == "/hook?token=1"
    assert (headers["Content-Type"], headers["Idempotency-Key"]) == ("application/json", body["key"])
    assert (body["event"], body["body"]["generation"]) == ("model.promoted", 3)
    first = [body["key"] for _, _, body in webhook.requests if body["event"] == "model.promoted"]
    assert len(first) == 3
    assert len(set(first)) == 1
    assert first[0] == f"notify_url@{body['id']}"
    assert not [text for text in webhook.texts() if "rollback" in text], "a rollback is sent once, not as an alert too"


def test_a_command_gets_the_message_on_its_stdin_until_it_ends_well(tmp_path: Path) -> None:
    """A command that fails twice is called a third time with the same message."""
    script, messages = tmp_path / "script.py", tmp_path / "messages"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script), str(tmp_path)]

    async def story() -> None:
        opened = Node.open(settings(tmp_path / "home", command=command), SystemClock(), Random(1))
        async with asyncio.timeout(60.0), opened as node:
            await wait_until(lambda: "notify_command" in node.router._handlers, SECONDS_MAX)
            await node.router.publish(PROMOTED)
            await wait_until(lambda: messages.exists() and len(messages.read_text().splitlines()) == 3, SECONDS_MAX)

    asyncio.run(story())
    keys = [json.loads(line)["key"] for line in messages.read_text().splitlines()]
    assert len(set(keys)) == 1
    assert keys[0].startswith("notify_command@")


def test_two_nodes_on_one_store_send_a_message_once(tmp_path: Path) -> None:
    """Only the holder of the role sends; when it has left, the other one goes on behind the last message."""
    hook = Webhook()

    async def story() -> None:
        first, clock = settings(tmp_path, url=hook.url), SystemClock()
        second = first.overlaid({"node.id": "second", "blobs.folder": str(tmp_path / "second")})
        async with asyncio.timeout(60.0), open_store(first.store, clock) as store, AsyncExitStack() as stack:
            await stack.enter_async_context(Node.open(second, clock, Random(2), store=store))
            async with Node.open(first, clock, Random(1), store=store) as node:
                await wait_until(_registered(node, "notify_url"), SECONDS_MAX)
                await node.router.publish(PROMOTED)
                await wait_until(lambda: len(hook.requests) == 1, SECONDS_MAX)
                await node.router.publish(ROLLED_BACK)
                await wait_until(lambda: len(hook.requests) == 2, SECONDS_MAX)
            async with Node.open(first, clock, Random(3), store=store) as node:
                await node.router.publish(changed(PROMOTED, generation=4))
                await wait_until(lambda: len(hook.requests) == 3, SECONDS_MAX)

    asyncio.run(story())
    hook.server.shutdown()
    hook.server.server_close()
    assert [body["event"] for _, _, body in hook.requests] == ["model.promoted", "model.rolled_back", "model.promoted"]


def test_what_happens_while_no_node_runs_is_sent_by_the_next_one(tmp_path: Path, webhook: Webhook) -> None:
    """The place in the log stays: a promotion between two nodes is sent by the second."""

    async def story() -> None:
        own = settings(tmp_path, url=webhook.url)
        async with asyncio.timeout(60.0), Node.open(own, SystemClock(), Random(1)) as node:
            await wait_until(lambda: "notify_url" in node.router._handlers, SECONDS_MAX)
            await wait_until(_registered(node, "notify_url"), SECONDS_MAX)
            await node.supervisor.stop("notify")
            await node.router.publish(PROMOTED)
        assert webhook.requests == []
        async with asyncio.timeout(60.0), Node.open(own, SystemClock(), Random(2)) as node:
            await wait_until(lambda: len(webhook.requests) >= 3, SECONDS_MAX)

    asyncio.run(story())


def test_without_a_target_no_reader_holds_the_log(tmp_path: Path, webhook: Webhook) -> None:
    """A target that is not set any more is forgotten, so that the log need not be kept for it."""

    async def story() -> None:
        async with (
            asyncio.timeout(60.0),
            Node.open(settings(tmp_path, url=webhook.url), SystemClock(), Random(1)) as node,
        ):
            await wait_until(_registered(node, "notify_url"), SECONDS_MAX)
        async with asyncio.timeout(60.0), Node.open(settings(tmp_path), SystemClock(), Random(2)) as node:
            await wait_until(lambda: node.roles.holds("notify"), SECONDS_MAX)
            await wait_until(_registered(node, "notify_url", expected=False), SECONDS_MAX)

    asyncio.run(story())


def _registered(node: Node, reader: str, *, expected: bool = True) -> Any:
    async def check() -> bool:
        async with node.store.read() as view:
            return (reader in await view.positions()) is expected

    return check


def test_a_url_of_another_kind_is_refused() -> None:
    """Only http and https are webhooks."""
    with pytest.raises(SettingsError, match="must begin with http"):
        NotifySettings(url="file:///etc/passwd")


def test_the_command_sends_a_test_message_to_every_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Webhook and command get a message each, without a store or a node; exit code 1 names the one that failed."""
    hook, script = Webhook(failures=1), tmp_path / "script.py"
    script.write_text("import pathlib, sys; pathlib.Path(sys.argv[1]).write_text(sys.stdin.read())")
    command = json.dumps([sys.executable, str(script), str(tmp_path / "message")])
    words = ["notify", "test", "--set", f"notify.url={hook.url}", "--set", f"notify.command={command}", "--json"]
    monkeypatch.setenv("RINGRIFT_HOME", str(tmp_path / "home"))

    codes, outputs = list[int](), list[dict[str, str]]()
    for _ in range(2):
        codes.append(call(words))
        outputs.append(json.loads(capsys.readouterr().out))
    hook.server.shutdown()
    hook.server.server_close()

    assert codes == [1, 0]
    assert outputs[0]["url"].startswith("not sent: http://127.0.0.1 answered 503")
    assert [outputs[0]["command"], outputs[1]] == ["sent", {"url": "sent", "command": "sent"}]
    [_, (_, headers, body)] = hook.requests
    assert (body["event"], body["body"]) == ("notify.test", {})
    assert "notifications arrive here" in body["text"]
    assert headers["Idempotency-Key"] == body["key"] == json.loads((tmp_path / "message").read_text())["key"]
    assert not (tmp_path / "home").exists()
