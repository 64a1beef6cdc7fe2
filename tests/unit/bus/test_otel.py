"""Spans as OTLP: a collector decodes exactly the recorded spans."""

import subprocess
import sys

import pytest

from collector import collecting
from ringrift.bus.otel import Collector, _address
from ringrift.bus.spans import Span
from ringrift.kernel.errors import SettingsError
from ringrift.kernel.settings import TraceSettings

TRACE, ID, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", "00f067aa0ba902b7"
INTERNAL, PRODUCER, CONSUMER = 1, 4, 5
WITHOUT = """
import asyncio, sys
from random import Random
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import MissingExtra
from ringrift.kernel.settings import Settings
from ringrift.node import Node

async def open(trace):
    settings = Settings.local(sys.argv[1]).overlaid({"trace": trace})
    async with Node.open(settings, SystemClock(), Random(7)):
        return sorted(name for name in sys.modules if name.split(".")[0] in ("opentelemetry", "requests"))

print(asyncio.run(open({})))
sys.modules["opentelemetry"] = None
try:
    asyncio.run(open({"endpoint": "http://127.0.0.1:9"}))
except MissingExtra as missing:
    print(missing)
"""


def made(**changes: object) -> Span:
    """A span of ours."""
    usual = {"trace": TRACE, "id": ID, "parent": PARENT, "name": "job sync", "start": 1_700_000_000.25, "seconds": 1.5}
    return Span(**usual | changes)


def test_a_span_arrives_unchanged() -> None:
    """Ids, parent, name, times, kind, attributes and the node are those of the recorder."""
    tags = {"ringrift.job": "j1", "attempt": 2, "share": 0.5, "urgent": True}

    with collecting() as there:
        ours = Collector(TraceSettings(endpoint=there.url), "n1")
        taken = ours.send([made(kind="job", tags=tags)])
        ours.close()

    [seen] = there.spans()
    assert taken
    assert there.paths == {"/v1/traces"}
    assert (seen.trace, seen.id, seen.parent, seen.name) == (TRACE, ID, PARENT, "job sync")
    assert (seen.start, seen.end) == (1_700_000_000_250_000_000, 1_700_000_001_750_000_000)
    assert (seen.kind, seen.node, seen.error) == (CONSUMER, "n1", "")
    assert seen.tags == tags


def test_roots_errors_and_kinds_are_distinct() -> None:
    """A root has no parent, a failed span has an error, and events, deliveries and custom spans have their kinds."""
    several = [made(kind="event", parent=""), made(error="KeyError: 'x'"), made(kind="delivery"), made(trace="old")]

    with collecting() as there:
        ours = Collector(TraceSettings(endpoint=there.url + "/"), "n1")
        ours.send(several)
        ours.close()

    root, failed, delivery, old = there.spans()
    assert (root.parent, root.kind) == ("", PRODUCER)
    assert (failed.error, failed.kind) == ("KeyError: 'x'", INTERNAL)
    assert delivery.kind == CONSUMER
    assert len(old.trace) == 32


@pytest.mark.parametrize("status", [400, 503])
def test_a_collector_that_refuses_is_noticed(status: int) -> None:
    """A refusal, temporary or final, does not count as success, and returns in time."""
    with collecting() as there:
        there.status = status
        ours = Collector(TraceSettings(endpoint=there.url, send_seconds_max=0.5), "n1")
        taken = ours.send([made()])
        ours.close()

    assert not taken
    assert there.spec >= 1


def test_a_collector_that_is_away_or_hangs_is_noticed() -> None:
    """With no server at the address, or one that never answers, the attempt ends within its time."""
    with collecting() as there:
        there.hangs = True
        ours = Collector(TraceSettings(endpoint=there.url, send_seconds_max=0.3), "n1")
        hung = ours.send([made()])
        ours.close()
        gone = there.url
    ours = Collector(TraceSettings(endpoint=gone, send_seconds_max=0.3), "n1")
    away = ours.send([made()])
    ours.close()

    assert not hung
    assert not away


def test_the_path_is_added_where_it_is_missing() -> None:
    """An endpoint may be named with or without the path for traces."""
    assert _address("http://h:4318") == _address("http://h:4318/") == _address("http://h:4318/v1/traces")


@pytest.mark.parametrize("endpoint", ["localhost:4318", "ftp://h", "grpc://h"])
def test_an_endpoint_that_is_none_is_refused(endpoint: str) -> None:
    """Only addresses of HTTP can be endpoints."""
    with pytest.raises(SettingsError, match=r"trace\.endpoint"):
        TraceSettings(endpoint=endpoint)


def test_opentelemetry_is_not_imported_without_an_endpoint(tmp_path: object) -> None:
    """A node without an endpoint does not load opentelemetry; with one but no extra the error names what to install."""
    shown = subprocess.run([sys.executable, "-c", WITHOUT, str(tmp_path)], capture_output=True, text=True, timeout=60)

    assert shown.stdout.splitlines() == [
        "[]",
        "opentelemetry.exporter.otlp.proto.http.trace_exporter is not installed: run  pip install 'ringrift[otel]'",
    ], shown.stderr
