"""Spans nest as the code does, and are kept by whoever the context says."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ringrift.bus import spans, trace
from ringrift.bus.spans import Recorder, Span, get_trace_id, recording, span, traced
from ringrift.events.base import Envelope, Event
from ringrift.events.data import Lost
from ringrift.store.ports import Lease
from unit.kernel.hand import HandClock

TRACE = "0af7651916cd43dd8448eb211c80319c"


@contextmanager
def kept(clock: HandClock | None = None) -> Iterator[list[Span]]:
    """The spans of the body, in the order in which they end."""
    found: list[Span] = []
    with recording(Recorder(clock or HandClock(), "seed", [found.append])):
        yield found


def event(**changes: object) -> Envelope:
    """An event of a story."""
    return Envelope(**{"id": "e1", "name": "data.lost", "body": b"{}", "trace": TRACE, "correlation": "c"} | changes)


def lease(context: str = "") -> Lease:
    """A claimed job."""
    return Lease(
        job="j1", kind="sync", variant="hex8_2p", key="k", body=b"{}", holder="n1", fence=1, renewals=0, seconds=30.0,
        attempts=2, context=context,
    )  # fmt: skip


def test_spans_nest() -> None:
    """An inner span belongs to the outer one, both to one trace, and the outer one's tags and times are its own."""
    clock = HandClock()

    with kept(clock) as found, span("outer", games=8):
        clock.seconds += 1
        with span("inner") as running:
            clock.seconds += 2
            running.tag(loss=0.5)

    inner, outer = found
    assert (inner.name, outer.name) == ("inner", "outer")
    assert (inner.parent, outer.parent) == (outer.id, "")
    assert inner.trace == outer.trace
    assert (inner.seconds, outer.seconds) == (2.0, 3.0)
    assert inner.start == outer.start + 1
    assert (inner.tags, outer.tags) == ({"loss": 0.5}, {"games": 8})
    assert len({inner.id, outer.id}) == 2


def test_an_exception_marks_its_span_and_travels_on() -> None:
    """Both spans around an error say what it was, and whoever called gets it."""
    with kept() as found, pytest.raises(KeyError), span("outer"), span("inner"):
        raise KeyError("games")

    assert [one.error for one in found] == ["KeyError: 'games'"] * 2
    assert trace.current() is None


def test_without_a_recorder_spans_only_have_ids() -> None:
    """Outside of any node a span still ties together what runs in it, and nothing is left afterwards."""
    with span("outer"):
        story, outer = get_trace_id(), trace.traceparent()
        with span("inner"):
            inner = trace.traceparent()
            same = get_trace_id()

    with span("another"):
        other = get_trace_id()

    assert len(story) == 32
    assert same == story != other
    assert outer != inner
    assert outer.endswith("-00")
    assert get_trace_id() == ""


def test_a_recorder_that_keeps_nothing_measures_nothing() -> None:
    """Without sinks no clock is read."""

    class Broken(HandClock):
        def now(self) -> float:
            raise AssertionError("read")

        tick = now

    with recording(Recorder(Broken(), "seed")), span("one"):
        story = get_trace_id()

    assert story
    assert spans.recorder() is None


def test_functions_are_traced_by_their_name_or_another() -> None:
    """Plain and async functions keep their name and result; the span is named after them or as they say."""

    @traced
    def double(number: int) -> int:
        """Twice."""
        return 2 * number

    @traced("selfplay_game", part="test")
    async def play(games: int) -> str:
        await asyncio.sleep(0)
        return f"{games} {get_trace_id()}"

    with kept() as found:
        made = double(21)
        story = asyncio.run(play(games=3))

    assert made == 42
    assert (double.__name__, double.__doc__) == ("double", "Twice.")
    assert story == f"3 {found[1].trace}"
    assert [one.name.split(".")[-1] for one in found] == ["double", "selfplay_game"]
    assert found[1].tags == {"part": "test"}


def test_a_traced_coroutine_that_fails_marks_its_span() -> None:
    """The span lasts until the coroutine ends, however it does."""

    @traced("fails")
    async def fail() -> None:
        await asyncio.sleep(0)
        raise ValueError("no")

    with kept() as found, pytest.raises(ValueError, match="no"):
        asyncio.run(fail())

    assert [one.error for one in found] == ["ValueError: no"]


def test_a_generator_cannot_be_traced() -> None:
    """A span around the call of a generator would measure nothing."""
    with pytest.raises(AssertionError, match="only begins"):

        @traced
        def several() -> Iterator[int]:
            yield 1


def test_tasks_inherit_the_span_they_were_started_in() -> None:
    """Spans of tasks that run at once belong to the span that started them, not to each other."""

    async def work(name: str) -> None:
        with span(name):
            await asyncio.sleep(0)

    async def story() -> None:
        with span("outer"):
            await asyncio.gather(work("a"), work("b"))

    with kept() as found:
        asyncio.run(story())

    outer = found[-1]
    assert {one.name: one.parent for one in found} == {"a": outer.id, "b": outer.id, "outer": ""}


def test_spans_of_threads_have_ids_of_their_own() -> None:
    """A recorder that several threads use gives no id twice."""
    recorder = Recorder(HandClock(), "seed")
    ids: list[str] = []

    threads = [threading.Thread(target=lambda: ids.extend([recorder.span() for _ in range(2000)])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(set(ids)) == 8000
    assert {len(id) for id in ids} == {16}
    assert Recorder(HandClock(), "other").span() != Recorder(HandClock(), "seed").span()


def test_a_delivery_is_a_span_of_its_event() -> None:
    """The span of a delivery belongs to the span that the event is, and is named after reader and event."""
    with kept() as found, spans.delivering("pipeline", event(position=7)):
        depth = trace.current()
        with span("own"):
            pass

    own, delivery = found
    assert (delivery.trace, delivery.parent) == (TRACE, trace.span_of("e1"))
    assert (delivery.name, delivery.kind) == ("pipeline data.lost", "delivery")
    assert delivery.tags == {"ringrift.reader": "pipeline", "ringrift.event": "e1", "ringrift.position": 7}
    assert own.parent == delivery.id
    assert depth is not None
    assert (depth.cause, depth.depth, depth.sampled) == ("e1", 1, True)


def test_a_delivery_without_a_recorder_is_still_in_its_story() -> None:
    """Without anybody who keeps spans, what handles an event knows it all the same."""
    with spans.delivering("pipeline", event()):
        context = trace.current()

    assert context == trace.of(event())


def test_a_live_call_is_watched_only_where_somebody_keeps_spans() -> None:
    """A subscriber's function is left as it is, or wrapped so that each delivery is a span."""
    heard: list[str] = []

    async def call(event: Event, envelope: Envelope) -> None:
        heard.append(get_trace_id())

    alone = spans.watched("view", call)
    with kept() as found:
        asyncio.run(spans.watched("view", call)(Lost(variant="v", blob="b", reason="r"), event()))

    assert alone is call
    assert heard == [TRACE]
    assert [one.name for one in found] == ["view data.lost"]


def test_a_job_is_a_span_of_what_asked_for_it() -> None:
    """The span of a job belongs to the span in which it was asked for; a job without a story begins one."""
    with kept() as found:
        with spans.delivering("pipeline", event()):
            asked = trace.written(trace.current())
        with spans.doing(lease(asked)):
            again = trace.read(trace.written(trace.current()))
        with spans.doing(lease()):
            pass

    delivery, job, other = found
    assert (job.name, job.kind, job.trace, job.parent) == ("job sync", "job", TRACE, delivery.id)
    assert (job.tags["ringrift.job"], job.tags["ringrift.attempt"]) == ("j1", 2)
    assert again is not None
    assert (again.cause, again.span, again.correlation) == ("e1", job.id, "c")
    assert other.trace != TRACE
    assert other.parent == ""


def test_an_event_is_a_span_without_length_where_it_was_written() -> None:
    """An event belongs to the span it was written in; without one, to the event that caused it."""
    found: list[Span] = []
    recorder = Recorder(HandClock(), "seed", [found.append])

    recorder.sealed(event(id="e2"), trace.Context(trace=TRACE, cause="e1", span="b7ad6b7169203331"))
    recorder.published(event(id="e2", cause="e1", time=5.0, position=9))
    recorder.published(event(id="e3", cause="e1"))
    recorder.published(event(id="e4"))

    assert [one.parent for one in found] == ["b7ad6b7169203331", trace.span_of("e1"), ""]
    assert (found[0].id, found[0].start, found[0].seconds) == (trace.span_of("e2"), 5.0, 0.0)
    assert (found[0].name, found[0].kind, found[0].tags["ringrift.position"]) == ("data.lost", "event", 9)


def test_an_event_that_skips_the_log_is_a_span_at_once() -> None:
    """What is only said in memory is never seen in the log, and kept when it is written."""
    found: list[Span] = []
    recorder = Recorder(HandClock(), "seed", [found.append])

    recorder.sealed(event(origin="memory"), trace.Context(trace=TRACE, span="b7ad6b7169203331"))

    assert [(one.id, one.parent) for one in found] == [(trace.span_of("e1"), "b7ad6b7169203331")]


def test_events_that_never_come_are_forgotten() -> None:
    """Of events that were written and undone only so many are remembered."""
    found: list[Span] = []
    recorder = Recorder(HandClock(), "seed", [found.append])
    context = trace.Context(trace=TRACE, span="b7ad6b7169203331")

    for number in range(spans.PARENTS_MAX + 1):
        recorder.sealed(event(id=f"e{number}"), context)
    recorder.published(event(id="e0"))
    recorder.published(event(id="e1"))

    assert [one.parent for one in found] == ["", "b7ad6b7169203331"]


def test_names_and_tags_are_bounded() -> None:
    """Whatever is said about a span, it has an end and can be shown."""
    many = {f"tag{number}": number for number in range(100)}

    with kept() as found, span("x" * 1000, text="y" * 1000, line="a\x00b", huge=10**30, **many):
        pass

    assert len(found[0].name) == spans.NAME_CHARACTERS_MAX
    assert len(found[0].tags) == spans.TAGS_MAX
    assert len(str(found[0].tags["text"])) == spans.TAG_CHARACTERS_MAX
    assert found[0].tags["line"] == "a\\x00b"
    assert found[0].tags["huge"] == str(10**30)
