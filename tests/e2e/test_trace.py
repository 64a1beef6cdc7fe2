"""One trace from self-play through a sync job to the synced batch, as a collector outside sees it."""

import json
import re
import sys
from pathlib import Path

import pytest

from collector import Collector, Seen, collecting
from e2e.processes import QUICK, Home
from ringrift.bus.trace import from_traceparent, span_of
from ringrift.workload import fake
from unit.workload.test_executable import PLUGIN

TRACE = "[trace]\nflush_seconds = 0.1\nstop_seconds_max = 20.0\n"
WAY = ["data.synced", "job sync", "pipeline selfplay.batch_finished", "selfplay.batch_finished", "job play"]
WRITES = """
import os
with open(PLACE, "a") as file: file.write(sys.argv[1] + " " + os.environ.get("TRACEPARENT", "-") + "\\n")
"""


def plugged(home: Home, folder: Path) -> Path:
    """Let an executable do every job, which writes down where it stands; the file it writes to."""
    place = folder / "places"
    script = folder / "plugin.py"
    text = PLUGIN.replace("SOURCE", repr(str(Path(fake.__file__).parents[2])))
    script.write_text(text.replace("class Context:", WRITES.replace("PLACE", repr(str(place))) + "class Context:", 1))
    command = [sys.executable, "-I", "-S", str(script)]
    settings = QUICK.replace('"fake"', '"mine"')
    (home.path / "ringrift.toml").write_text(f"{settings}{TRACE}[workloads.mine]\ncommand = {command}\n")
    return place


def upwards(there: Collector, seen: Seen) -> list[str]:
    """The names from *seen* up to the root of its trace."""
    spans = {span.id: span for span in there.spans()}
    names = []
    while True:
        names.append(seen.name)
        if seen.parent not in spans:
            assert seen.parent == "", f"{names}: its parent {seen.parent} was never sent"
            return names
        assert spans[seen.parent].trace == seen.trace
        seen = spans[seen.parent]


def test_one_trace_goes_through_the_loop(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that was played, the job that copies it and the event that it was copied hang together at a collector.

    The programs that did the jobs have seen where they stand, and the log shows the same story in detail.
    """
    places = plugged(home, tmp_path)

    with collecting() as there:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", there.url)
        monkeypatch.setenv("RINGRIFT_TRACE_DEBUG", "true")
        code, output = home.run("run", "--iterations", "1", "--variants", "hex8_2p", seconds=110)

    assert code == 0, output[-3000:]
    events = dict(home.ask("SELECT id, trace FROM log WHERE name = 'data.synced'"))
    synced = {span.id: span for span in there.named("data.synced")}
    assert events
    assert {span_of(id): trace for id, trace in events.items()} == {span.id: span.trace for span in synced.values()}
    rises = [upwards(there, span)[:5] for span in synced.values()]
    assert WAY in rises
    jobs = {span.id for span in there.spans() if span.name.startswith("job ")}
    stood = [line.split()[1] for line in places.read_text().splitlines() if line.startswith("run ")]
    assert stood
    assert {from_traceparent(text).span for text in stood} <= jobs
    assert {from_traceparent(text).sampled for text in stood} == {True}
    assert len(set(stood)) == len(stood)
    logged = [json.loads(line) for line in (home.path / "logs" / "ringrift.log").read_text().splitlines()]
    shown = [line["text"] for line in logged if line["part"] == "ringrift.trace"]
    assert any(re.match("event data.synced trace=", line) for line in shown)
    assert any(re.match("job job sync trace=", line) for line in shown)


def test_a_collector_that_is_away_costs_a_run_nothing(home: Home) -> None:
    """With nobody at the endpoint the loop goes round all the same, and the log says that spans were lost."""
    with collecting() as there:
        nobody = there.url
    with (home.path / "ringrift.toml").open("a") as file:
        file.write(f"{TRACE}endpoint = '{nobody}'\nsend_seconds_max = 0.5\n")

    code, output = home.run("run", "--iterations", "1", "--variants", "hex8_2p")

    assert code == 0, output[-3000:]
    assert "spans were lost" in (home.path / "logs" / "ringrift.log").read_text()
