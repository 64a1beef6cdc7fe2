"""One trace from self-play through a sync job to the synced batch, as a collector outside sees it."""

import json
import re
import sys
from pathlib import Path

import pytest

from collector import Collector, ReceivedSpan, collecting
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
    """Let an executable do every job, which records its trace context; the file it writes to."""
    record = folder / "positions"
    script = folder / "plugin.py"
    text = PLUGIN.replace("SOURCE", repr(str(Path(fake.__file__).parents[2])))
    script.write_text(text.replace("class Context:", WRITES.replace("PLACE", repr(str(record))) + "class Context:", 1))
    command = [sys.executable, "-I", "-S", str(script)]
    settings = QUICK.replace('"fake"', '"mine"')
    (home.path / "ringrift.toml").write_text(f"{settings}{TRACE}[workloads.mine]\ncommand = {command}\n")
    return record


def upwards(there: Collector, span: ReceivedSpan) -> list[str]:
    """The names from *span* up to the root of its trace."""
    spans = {each.id: each for each in there.spans()}
    names = []
    while True:
        names.append(span.name)
        if span.parent not in spans:
            assert span.parent == "", f"{names}: its parent {span.parent} was never sent"
            return names
        assert spans[span.parent].trace == span.trace
        span = spans[span.parent]


def test_one_trace_goes_through_the_loop(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that was played, the job that copies it and the event that it was copied are one trace at a collector.

    The programs that did the jobs have recorded their trace context, and the log shows the same trace in detail.
    """
    record = plugged(home, tmp_path)

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
    contexts = [line.split()[1] for line in record.read_text().splitlines() if line.startswith("run ")]
    assert contexts
    assert {from_traceparent(text).span for text in contexts} <= jobs
    assert {from_traceparent(text).sampled for text in contexts} == {True}
    assert len(set(contexts)) == len(contexts)
    logged = [json.loads(line) for line in (home.path / "logs" / "ringrift.log").read_text().splitlines()]
    texts = [line["text"] for line in logged if line["part"] == "ringrift.trace"]
    assert any(re.match("event data.synced trace=", line) for line in texts)
    assert any(re.match("job job sync trace=", line) for line in texts)


def test_a_collector_that_is_away_costs_a_run_nothing(home: Home) -> None:
    """With no process at the endpoint the loop completes its round, and the log reports that spans were lost."""
    with collecting() as there:
        closed_url = there.url
    with (home.path / "ringrift.toml").open("a") as file:
        file.write(f"{TRACE}endpoint = '{closed_url}'\nsend_seconds_max = 0.5\n")

    code, output = home.run("run", "--iterations", "1", "--variants", "hex8_2p")

    assert code == 0, output[-3000:]
    assert "spans were lost" in (home.path / "logs" / "ringrift.log").read_text()
