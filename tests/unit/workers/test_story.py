"""A job in a worker process stands where its node says, and so does every program that it starts."""

import asyncio
import os
import subprocess
import sys

import msgspec
import pytest

from ringrift.bus import trace
from ringrift.bus.spans import Recorder, Span, get_trace_id, recording, span
from ringrift.kernel.errors import JobFailed
from ringrift.work.launch.process import SPANS_PER_JOB_MAX, Process, Said, Told
from ringrift.workers.story import SPANS_BYTES_MAX, VARIABLE, belonging
from ringrift.workload.api import JobResult, JobSpec
from unit.kernel.hand import HandClock

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
KEPT, UNKEPT = f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-00"
SPEC = JobSpec(job="j1", stage="play", variant="hex8_2p", seed=1)
CHILD = (
    "import sys; print(sys.stdin.readline().strip(), file=sys.stderr); print({line!r}, flush=True); sys.stdin.read()"
)


def told(traceparent: str) -> Told:
    """A job as the node hands it over."""
    return Told(run=SPEC, traceparent=traceparent)


def test_spans_of_a_workload_belong_to_its_job() -> None:
    """What the workload's own code measures is kept for the node, below the span of the job."""
    with belonging(told(KEPT)) as kept, span("game", moves=40):
        story = get_trace_id()

    [own] = kept.spans
    assert story == own.trace == TRACE
    assert (own.parent, own.name, own.tags) == (SPAN, "game", {"moves": 40})
    assert trace.current() is None


def test_programs_that_a_job_starts_inherit_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment says where the job stands while it runs, and neither before nor after."""
    monkeypatch.setenv(VARIABLE, "from-somewhere-else")
    ask = [sys.executable, "-c", f"import os; print(os.environ.get({VARIABLE!r}, 'nothing'))"]

    with belonging(told(KEPT)):
        during = subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip()
    after = subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip()

    assert (during, after) == (KEPT, "nothing")


def test_without_a_story_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job without a trace stands nowhere, also if the node was started in some trace."""
    monkeypatch.setenv(VARIABLE, KEPT)

    with belonging(told("")) as kept:
        found = (get_trace_id(), os.environ.get(VARIABLE))
        with span("game"):
            own = get_trace_id()

    assert found == ("", None)
    assert own not in ("", TRACE)
    assert kept.spans == []


def test_what_nobody_wants_is_not_kept() -> None:
    """Where the node keeps no spans, a workload's have ids only."""
    with belonging(told(UNKEPT)) as kept, span("game"):
        said = trace.traceparent()

    assert kept.spans == []
    assert trace.from_traceparent(said).trace == TRACE


def test_two_jobs_of_one_cause_have_spans_of_their_own() -> None:
    """Although they stand at the same place, no id of a span is given twice."""
    ids = []
    for job in ("j1", "j2"):
        spec = JobSpec(job=job, stage="play", variant="hex8_2p", seed=1)
        with belonging(Told(run=spec, traceparent=UNKEPT)), span("game"):
            ids.append(trace.traceparent())

    assert len(set(ids)) == 2


def test_a_job_with_too_many_spans_keeps_the_first_and_counts_the_rest() -> None:
    """Number and size of what travels with the result are bounded."""
    with belonging(told(KEPT)) as many:
        for _ in range(SPANS_PER_JOB_MAX + 5):
            with span("game"):
                pass
    with belonging(told(KEPT)) as large:
        for _ in range(SPANS_PER_JOB_MAX):
            with span("game", **{f"tag{n}": "x" * 200 for n in range(30)}):
                pass

    assert (len(many.spans), many.dropped) == (SPANS_PER_JOB_MAX, 5)
    assert len(msgspec.json.encode(large.spans)) < 1.1 * SPANS_BYTES_MAX
    assert large.dropped == SPANS_PER_JOB_MAX - len(large.spans) > 0


def _in_child(said: Said, found: list[Span]) -> tuple[JobResult | str, Told]:
    """What a child that answers with *said* comes to, run inside a span, and what it was told."""

    async def story() -> tuple[JobResult | str, Told]:
        pipe = asyncio.subprocess.PIPE
        program = CHILD.format(line=msgspec.json.encode(said).decode())
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
        )
        worker = Process(child)
        result: JobResult | str
        try:
            with recording(Recorder(HandClock(), "seed", [found.append])), span("job"):
                result = await worker.run(SPEC, None, lambda word: None)
        except JobFailed as failed:
            result = failed.reason
        finally:
            await worker.end(0.0)
        return result, msgspec.json.decode(worker._tail[0], type=Told)

    return asyncio.run(story())


@pytest.mark.parametrize("ends", [Said(result=JobResult()), Said(error="no", retry=False)])
def test_the_node_tells_the_place_and_keeps_the_spans_that_come_back(ends: Said) -> None:
    """A child is told the span of its job, and what it measured reaches the node's recorder however the job ends."""
    found: list[Span] = []
    ends.spans = (Span(trace=TRACE, id="1" * 16, parent=SPAN, name="game", start=1.0, seconds=2.0),)

    result, heard = _in_child(ends, found)

    child, job = found
    assert isinstance(result, JobResult) if ends.error is None else result == "no"
    assert child.name == "game"
    assert heard.traceparent == f"00-{job.trace}-{job.id}-01"
    assert heard.run == SPEC
