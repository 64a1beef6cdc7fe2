"""Spans nest as the code does, and go to the recorder of the context."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ringrift.bus import spans, trace
from ringrift.bus.spans import Recorder, Span, get_trace_id, recording, span, traced
from ringrift.events import work
from ringrift.events.base import Envelope, Event
from ringrift.events.data import Lost
from ringrift.store.ports import Lease
from unit.kernel.manual_clock import ManualClock

TRACE = "0af7651916cd43dd8448eb211c80319c"


@contextmanager
def recorded_spans(clock: ManualClock | None = None) -> Iterator[list[Span]]:
    """The spans of the body, in the order in which they end."""
    recorded: list[Span] = []
    with recording(Recorder(clock or ManualClock(), "seed", [recorded.append])):
        yield recorded


def event(**changes: object) -> Envelope:
    """An event with a trace."""
    return Envelope(**{"id": "e1", "name": "data.lost", "body": b"{}", "trace": TRACE, "correlation": "c"} | changes)


def lease(context: str = "") -> Lease:
    """A claimed job."""
    return Lease(
        job="j1",
        kind="sync",
        variant="hex8_2p",
        key="k",
        body=b"{}",
        holder="n1",
        fence=1,
        renewals=0,
        seconds=30.0,
        attempts=2,
        context=context,
    )


def test_spans_nest() -> None:
    """An inner span belongs to the outer one, both to one trace, and the outer one's tags and times are its own."""
    clock = ManualClock()

    with recorded_spans(clock) as recorded, span("outer", games=8):
        clock.seconds += 1
        with span("inner") as open_span:
            clock.seconds += 2
            open_span.tag(loss=0.5)

    inner, outer = recorded
    assert (inner.name, outer.name) == ("inner", "outer")
    assert (inner.parent, outer.parent) == (outer.id, "")
    assert inner.trace == outer.trace
    assert (inner.seconds, outer.seconds) == (2.0, 3.0)
    assert inner.start == outer.start + 1
    assert (inner.tags, outer.tags) == ({"loss": 0.5}, {"games": 8})
    assert len({inner.id, outer.id}) == 2


def test_an_exception_marks_its_span_and_propagates() -> None:
    """Both spans around an error record it, and the caller gets it."""
    with recorded_spans() as recorded, pytest.raises(KeyError), span("outer"), span("inner"):
        raise KeyError("games")

    assert [recorded_span.error for recorded_span in recorded] == ["KeyError: 'games'"] * 2
    assert trace.current() is None


def test_without_a_recorder_spans_only_have_ids() -> None:
    """Outside of any node a span still ties together what runs in it, and nothing is left afterwards."""
    with span("outer"):
        trace_id, outer = get_trace_id(), trace.traceparent()
        with span("inner"):
            inner = trace.traceparent()
            same = get_trace_id()

    with span("another"):
        other = get_trace_id()

    assert len(trace_id) == 32
    assert same == trace_id != other
    assert outer != inner
    assert outer.endswith("-00")
    assert get_trace_id() == ""


def test_a_recorder_that_keeps_nothing_measures_nothing() -> None:
    """Without sinks no clock is read."""

    class Broken(ManualClock):
        def now(self) -> float:
            raise AssertionError("read")

        tick = now

    with recording(Recorder(Broken(), "seed")), span("one"):
        trace_id = get_trace_id()

    assert trace_id
    assert spans.current_recorder() is None


def test_functions_are_traced_by_their_name_or_another() -> None:
    """Plain and async functions keep their name and result; the span has their name or the configured one."""

    @traced
    def double(number: int) -> int:
        """Twice."""
        return 2 * number

    @traced("selfplay_game", part="test")
    async def play(games: int) -> str:
        await asyncio.sleep(0)
        return f"{games} {get_trace_id()}"

    with recorded_spans() as recorded:
        made = double(21)
        text = asyncio.run(play(games=3))

    assert made == 42
    assert (double.__name__, double.__doc__) == ("double", "Twice.")
    assert text == f"3 {recorded[1].trace}"
    assert [recorded_span.name.split(".")[-1] for recorded_span in recorded] == ["double", "selfplay_game"]
    assert recorded[1].tags == {"part": "test"}


def test_a_traced_coroutine_that_fails_marks_its_span() -> None:
    """The span lasts until the coroutine ends, however it does."""

    @traced("fails")
    async def fail() -> None:
        await asyncio.sleep(0)
        raise ValueError("no")

    with recorded_spans() as recorded, pytest.raises(ValueError, match="no"):
        asyncio.run(fail())

    assert [recorded_span.error for recorded_span in recorded] == ["ValueError: no"]


def test_a_generator_cannot_be_traced() -> None:
    """A span around the call of a generator would measure nothing."""
    with pytest.raises(AssertionError, match="is a generator"):

        @traced
        def several() -> Iterator[int]:
            yield 1


def test_tasks_inherit_the_span_they_were_started_in() -> None:
    """Spans of tasks that run at once belong to the span that started them, not to each other."""

    async def work(name: str) -> None:
        with span(name):
            await asyncio.sleep(0)

    async def main() -> None:
        with span("outer"):
            await asyncio.gather(work("a"), work("b"))

    with recorded_spans() as recorded:
        asyncio.run(main())

    outer = recorded[-1]
    assert {child.name: child.parent for child in recorded} == {"a": outer.id, "b": outer.id, "outer": ""}


def test_spans_of_threads_have_ids_of_their_own() -> None:
    """A recorder that several threads use gives no id twice."""
    recorder = Recorder(ManualClock(), "seed")
    ids: list[str] = []

    threads = [threading.Thread(target=lambda: ids.extend([recorder.span() for _ in range(2000)])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(set(ids)) == 8000
    assert {len(id) for id in ids} == {16}
    assert Recorder(ManualClock(), "other").span() != Recorder(ManualClock(), "seed").span()


def test_a_delivery_is_a_span_of_its_event() -> None:
    """The span of a delivery belongs to the span that the event is, and is named after reader and event."""
    with recorded_spans() as recorded, spans.delivery_span("pipeline", event(position=7)):
        depth = trace.current()
        with span("own"):
            pass

    own, delivery = recorded
    assert (delivery.trace, delivery.parent) == (TRACE, trace.span_of("e1"))
    assert (delivery.name, delivery.kind) == ("pipeline data.lost", "delivery")
    assert delivery.tags == {"ringrift.reader": "pipeline", "ringrift.event": "e1", "ringrift.position": 7}
    assert own.parent == delivery.id
    assert depth is not None
    assert (depth.cause, depth.depth, depth.sampled) == ("e1", 1, True)


def test_a_delivery_without_a_recorder_is_still_in_its_trace() -> None:
    """Without a recorder, the handler of an event still has its context."""
    with spans.delivery_span("pipeline", event()):
        context = trace.current()

    assert context == trace.context_of(event())


def test_a_live_call_is_traced_only_with_a_recorder() -> None:
    """A subscriber's function is left unchanged, or wrapped so that each delivery is a span."""
    traces: list[str] = []

    async def call(event: Event, envelope: Envelope) -> None:
        traces.append(get_trace_id())

    alone = spans.traced_handler("view", call)
    with recorded_spans() as recorded:
        asyncio.run(spans.traced_handler("view", call)(Lost(variant="v", blob="b", reason="r"), event()))

    assert alone is call
    assert traces == [TRACE]
    assert [recorded_span.name for recorded_span in recorded] == ["view data.lost"]


def test_a_job_is_a_child_span_of_its_request() -> None:
    """The span of a job belongs to the span in which it was enqueued; a job without a trace begins one."""
    with recorded_spans() as recorded:
        with spans.delivery_span("pipeline", event()):
            context_text = trace.to_text(trace.current())
        with spans.job_span(lease(context_text)):
            again = trace.from_text(trace.to_text(trace.current()))
        with spans.job_span(lease()):
            pass

    delivery, job, other = recorded
    assert (job.name, job.kind, job.trace, job.parent) == ("job sync", "job", TRACE, delivery.id)
    assert (job.tags["ringrift.job"], job.tags["ringrift.attempt"]) == ("j1", 2)
    assert again is not None
    assert (again.cause, again.span, again.correlation) == ("e1", job.id, "c")
    assert other.trace != TRACE
    assert other.parent == ""


def test_an_event_is_a_span_without_duration_where_it_was_written() -> None:
    """An event belongs to the span it was written in; without one, to the event that caused it."""
    recorded: list[Span] = []
    recorder = Recorder(ManualClock(), "seed", [recorded.append])

    recorder.note_made(event(id="e2"), trace.Context(trace=TRACE, cause="e1", span="b7ad6b7169203331"))
    recorder.record_event(event(id="e2", cause="e1", time=5.0, position=9))
    recorder.record_event(event(id="e3", cause="e1"))
    recorder.record_event(event(id="e4"))

    assert [recorded_span.parent for recorded_span in recorded] == ["b7ad6b7169203331", trace.span_of("e1"), ""]
    assert (recorded[0].id, recorded[0].start, recorded[0].seconds) == (trace.span_of("e2"), 5.0, 0.0)
    assert (recorded[0].name, recorded[0].kind, recorded[0].tags["ringrift.position"]) == ("data.lost", "event", 9)


def test_an_event_that_skips_the_log_is_a_span_at_once() -> None:
    """An in-memory event never appears in the log, so its span is recorded when it is published."""
    recorded: list[Span] = []
    recorder = Recorder(ManualClock(), "seed", [recorded.append])

    recorder.note_made(event(name=work.Progressed.name()), trace.Context(trace=TRACE, span="b7ad6b7169203331"))

    assert [(recorded_span.id, recorded_span.parent) for recorded_span in recorded] == [
        (trace.span_of("e1"), "b7ad6b7169203331")
    ]


def test_events_that_never_come_are_forgotten() -> None:
    """Only a bounded number of events that were written and rolled back is remembered."""
    recorded: list[Span] = []
    recorder = Recorder(ManualClock(), "seed", [recorded.append])
    context = trace.Context(trace=TRACE, span="b7ad6b7169203331")

    for number in range(spans._PARENTS_MAX + 1):
        recorder.note_made(event(id=f"e{number}"), context)
    recorder.record_event(event(id="e0"))
    recorder.record_event(event(id="e1"))

    assert [recorded_span.parent for recorded_span in recorded] == ["", "b7ad6b7169203331"]


def test_names_and_tags_are_bounded() -> None:
    """Whatever its name and tags, a span has bounded, printable text."""
    many = {f"tag{number}": number for number in range(100)}

    with recorded_spans() as recorded, span("x" * 1000, text="y" * 1000, line="a\x00b", huge=10**30, **many):
        pass

    assert len(recorded[0].name) == spans._NAME_CHARACTERS_MAX
    assert len(recorded[0].tags) == spans._TAGS_MAX
    assert len(str(recorded[0].tags["text"])) == spans._TAG_CHARACTERS_MAX
    assert recorded[0].tags["line"] == "a\\x00b"
    assert recorded[0].tags["huge"] == str(10**30)
