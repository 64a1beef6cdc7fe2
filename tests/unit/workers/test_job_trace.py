"""A job in a worker process has the trace context of its node, and so has every program that it starts."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from ringrift.bus import trace
from ringrift.bus.spans import Recorder, Span, get_trace_id, recording, span
from ringrift.child import Child
from ringrift.kernel.errors import JobFailed
from ringrift.work.launch.output import OutputSplitter
from ringrift.work.launch.process import SPANS_PER_JOB_MAX, FromChild, ToChild, _WorkerProcess
from ringrift.workers.context import _SPANS_BYTES_MAX, _VARIABLE, traced_job
from ringrift.workload.api import JobResult, JobSpec
from unit.kernel.manual_clock import ManualClock

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
RECORDED, UNRECORDED = f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-00"
SPEC = JobSpec(job="j1", stage="play", variant="hex8_2p", seed=1)
CHILD = """
import sys
open(sys.argv[1], "w").write(sys.stdin.readline())
print(sys.argv[2], flush=True)
sys.stdin.read()
"""


def message(traceparent: str) -> ToChild:
    """A job as the node hands it over."""
    return ToChild(run=SPEC, traceparent=traceparent)


def test_spans_of_a_workload_belong_to_its_job() -> None:
    """Spans of the workload's own code are sent to the node, below the span of the job."""
    with traced_job(message(RECORDED)) as buffer, span("game", moves=40):
        trace_id = get_trace_id()

    [own] = buffer.spans
    assert trace_id == own.trace == TRACE
    assert (own.parent, own.name, own.tags) == (SPAN, "game", {"moves": 40})
    assert trace.current() is None


def test_programs_that_a_job_starts_inherit_its_context(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment has the context of the job while it runs, and neither before nor after."""
    monkeypatch.setenv(_VARIABLE, "from-somewhere-else")
    ask = [sys.executable, "-c", f"import os; print(os.environ.get({_VARIABLE!r}, 'nothing'))"]

    with traced_job(message(RECORDED)):
        during = subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip()
    after = subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip()

    assert (during, after) == (RECORDED, "nothing")


def test_a_job_without_a_trace_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job without a trace stands nowhere, also if the node was started in some trace."""
    monkeypatch.setenv(_VARIABLE, RECORDED)

    with traced_job(message("")) as buffer:
        around = (get_trace_id(), os.environ.get(_VARIABLE))
        with span("game"):
            own = get_trace_id()

    assert around == ("", None)
    assert own not in ("", TRACE)
    assert buffer.spans == []


def test_spans_that_the_node_does_not_record_are_not_kept() -> None:
    """If the node records no spans, a workload's have ids only."""
    with traced_job(message(UNRECORDED)) as buffer, span("game"):
        place = trace.traceparent()

    assert buffer.spans == []
    assert trace.from_traceparent(place).trace == TRACE


def test_two_jobs_of_one_cause_have_spans_of_their_own() -> None:
    """Although they have the same parent, no span id is used twice."""
    ids = []
    for job in ("j1", "j2"):
        spec = JobSpec(job=job, stage="play", variant="hex8_2p", seed=1)
        with traced_job(ToChild(run=spec, traceparent=UNRECORDED)), span("game"):
            ids.append(trace.traceparent())

    assert len(set(ids)) == 2


def test_a_job_with_too_many_spans_keeps_the_first_and_counts_the_rest() -> None:
    """Number and size of what travels with the result are bounded."""
    with traced_job(message(RECORDED)) as many:
        for _ in range(SPANS_PER_JOB_MAX + 5):
            with span("game"):
                pass
    with traced_job(message(RECORDED)) as large:
        for _ in range(SPANS_PER_JOB_MAX):
            with span("game", **{f"tag{n}": "x" * 200 for n in range(30)}):
                pass

    assert (len(many.spans), many.dropped) == (SPANS_PER_JOB_MAX, 5)
    assert len(msgspec.json.encode(large.spans)) < 1.1 * _SPANS_BYTES_MAX
    assert large.dropped == SPANS_PER_JOB_MAX - len(large.spans) > 0


def _in_child(last: FromChild, recorded: list[Span], folder: Path) -> tuple[JobResult | str, ToChild]:
    """The end of a job whose child answers with *last*, run inside a span, and the message that the child got."""

    async def story() -> JobResult | str:
        argv = [sys.executable, "-c", CHILD, str(folder / "message"), msgspec.json.encode(last).decode()]
        child = await Child.start("the worker", argv, line_bytes_max=100_000)
        worker = _WorkerProcess(child, OutputSplitter(None, "n1"))
        try:
            with recording(Recorder(ManualClock(), "seed", [recorded.append])), span("job"):
                return await worker.run(SPEC, None, lambda progress: None)
        except JobFailed as failed:
            return failed.reason
        finally:
            await worker.end(0.0)

    return asyncio.run(story()), msgspec.json.decode((folder / "message").read_bytes(), type=ToChild)


@pytest.mark.parametrize("last", [FromChild(result=JobResult()), FromChild(error="no", retry=False)])
def test_the_node_sends_the_context_and_records_the_returned_spans(last: FromChild, tmp_path: Path) -> None:
    """A child gets the span of its job, and its spans reach the node's recorder however the job ends."""
    recorded: list[Span] = []
    last.spans = (Span(trace=TRACE, id="1" * 16, parent=SPAN, name="game", start=1.0, seconds=2.0),)

    result, sent = _in_child(last, recorded, tmp_path)

    child, job = recorded
    assert isinstance(result, JobResult) if last.error is None else result == "no"
    assert child.name == "game"
    assert sent.traceparent == f"00-{job.trace}-{job.id}-01"
    assert sent.run == SPEC
